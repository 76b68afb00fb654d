"""Topologies built by hand: what is wrong is found when it is added."""

import json
import re

import pytest

from headrace import Processor, Serdes, Stores, Topology
from headrace.errors import TopologyError


class Forwarding(Processor):
    def process(self, record):
        self.ctx.forward(record)


def seen():
    return Stores.key_value("seen", key=Serdes.string(), value=Serdes.long())


def chain() -> Topology:
    return Topology().add_source("in", "orders").add_processor("work", Forwarding, "in")


def test_nodes_and_stores_can_be_read_back():
    topology = chain().add_state_store(seen(), "work").add_sink("out", "results", "work")
    assert list(topology.nodes) == ["in", "work", "out"]
    assert list(topology.stores) == ["seen"]
    assert topology.children("work") == ("out",)
    assert [group.nodes for group in topology.subtopologies()] == [("in", "work", "out")]


def test_two_nodes_of_one_name():
    with pytest.raises(TopologyError, match=r"two nodes have the name 'in' \(.*test_topology.py:\d+\)"):
        chain().add_source("in", "other")


def test_an_unknown_parent():
    with pytest.raises(
        TopologyError,
        match=r"node 'out' \(.*test_topology.py:\d+\) has an unknown parent 'wrok'; known nodes: in, work",
    ):
        chain().add_sink("out", "results", "wrok")


def test_a_node_without_parent():
    with pytest.raises(TopologyError, match="has no parent"):
        Topology().add_processor("work", Forwarding)


def test_a_sink_as_parent():
    with pytest.raises(TopologyError, match="a sink has no children"):
        chain().add_sink("out", "results", "work").add_processor("more", Forwarding, "out")


def test_a_topic_read_twice():
    with pytest.raises(TopologyError, match="topic 'orders' is read by two sources, 'in'"):
        chain().add_source("again", "orders")
    with pytest.raises(TopologyError, match="topic 'orders' is read by two sources"):
        chain().add_source("again", re.compile("ord.*"))


def test_two_stores_of_one_name():
    with pytest.raises(TopologyError, match="two stores have the name 'seen'"):
        chain().add_state_store(seen(), "work").add_state_store(seen(), "work")


def test_a_store_that_nobody_connected():
    with pytest.raises(TopologyError, match="store 'seen' was added, but no processor is connected to it"):
        chain().add_state_store(seen()).freeze()


def test_a_store_that_was_not_added():
    with pytest.raises(TopologyError, match=r"node 'work' \(.*\) uses the store 'sene', which was not added"):
        chain().connect("work", "sene")


def test_a_store_on_a_source():
    with pytest.raises(TopologyError, match="sources and sinks have no stores"):
        chain().add_state_store(seen(), "in")


def test_a_built_topology_cannot_be_changed():
    topology = chain().freeze()
    with pytest.raises(TopologyError, match="can no longer be changed"):
        topology.add_sink("out", "results", "work")


def test_a_shared_store_makes_one_subtopology():
    topology = chain().add_source("in2", "returns").add_processor("work2", Forwarding, "in2")
    assert len(topology.subtopologies()) == 2
    topology.add_state_store(seen(), "work", "work2")
    assert len(topology.subtopologies()) == 1


def test_copartitioning_is_checked_as_soon_as_counts_are_known():
    topology = chain().add_source("in2", "returns")
    topology.copartition(["in", "in2"])
    topology.check_copartitioning({"orders": 3})
    topology.check_copartitioning({"orders": 3, "returns": 3})
    with pytest.raises(TopologyError, match=r"orders has 3, returns has 4 \('in' \(.*test_topology.py:\d+\), 'in2'"):
        topology.check_copartitioning({"orders": 3, "returns": 4})


def test_description_as_mermaid_and_json():
    description = chain().add_state_store(seen(), "work").add_sink("out", "results", "work").describe()
    drawn = description.to_mermaid()
    assert drawn.startswith("flowchart TD")
    assert '(["orders"])' in drawn and '[("seen")]' in drawn and '["work"]' in drawn
    nodes = json.loads(description.to_json())["subtopologies"][0]["nodes"]
    assert [node["name"] for node in nodes] == ["in", "work", "out"]
    assert nodes[1] == {
        "name": "work",
        "type": "processor",
        "topics": [],
        "stores": ["seen"],
        "predecessors": ["in"],
        "successors": ["out"],
    }
