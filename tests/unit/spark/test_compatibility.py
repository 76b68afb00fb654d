"""Which changes of a topology its state survives."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace import Consumed, Serdes, StreamsBuilder, Topology
from headrace.errors import TopologyError
from headrace.kafka.partitions import plan_partitions
from headrace.spark.compatibility import check_compatible
from headrace.spark.file_systems import open_directory

TEXT = Serdes.string()


def counting(*counted: str, plain: tuple[str, ...] = (), everywhere: tuple[str, ...] = ()) -> Topology:
    """Counts each topic in a store of its name; copies plain ones; has a global table of others."""
    builder = StreamsBuilder()
    for topic in counted:
        builder.stream(topic, Consumed(key=TEXT, value=TEXT)).group_by_key().count(topic)
    for topic in plain:
        builder.stream(topic, Consumed(key=TEXT, value=TEXT)).to("out")
    for topic in everywhere:
        builder.global_table(topic, Consumed(key=TEXT, value=TEXT), f"global-{topic}")
    return builder.build()


def check(directory: Path, topology: Topology, **partitions: int) -> None:
    check_compatible(open_directory(str(directory)), topology, plan_partitions(topology, partitions))


def test_tasks_without_state_may_become_more(tmp_path: Path):
    check(tmp_path, counting("a", plain=("p",)), a=2, p=2)
    check(tmp_path, counting("a", plain=("p",)), a=2, p=4)
    check(tmp_path, counting("a", plain=("p", "q")), a=2, p=4, q=1)


def test_tasks_with_state_may_not(tmp_path: Path):
    check(tmp_path, counting("a"), a=2)
    with pytest.raises(TopologyError, match="sub-topology 0 had 2 tasks and has 3 now"):
        check(tmp_path, counting("a"), a=3)


def test_a_store_stays_in_its_sub_topology(tmp_path: Path):
    check(tmp_path, counting("a", "b"), a=2, b=2)
    with pytest.raises(TopologyError, match="store a was in sub-topology 0 and is in sub-topology 1 now"):
        check(tmp_path, counting("b", "a"), a=2, b=2)


def test_new_tasks_would_miss_what_a_global_table_has_read(tmp_path: Path):
    check(tmp_path, counting(plain=("p",), everywhere=("g",)), p=1, q=1, g=1)
    with pytest.raises(TopologyError, match="sub-topology 0 had 1 tasks and has 2 now"):
        check(tmp_path, counting(plain=("p",), everywhere=("g",)), p=2, q=1, g=1)
    with pytest.raises(TopologyError, match=r"sub-topology \d is new"):
        check(tmp_path, counting(plain=("p", "q"), everywhere=("g",)), p=1, q=1, g=1)
