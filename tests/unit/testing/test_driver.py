from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest

from headrace import Consumed, Grouped, Materialized, Produced, Record, Serdes, StreamsBuilder, StreamsConfig, Topology
from headrace.errors import ConfigError, StreamsError, UnknownStoreError, UnknownTopicError
from headrace.testing import EmptyTopicError, TopologyTestDriver

STRING = Serdes.string()
CONSUMED = Consumed(key=STRING, value=STRING)
PRODUCED = Produced(key=STRING, value=STRING)
COUNTED = Produced(key=STRING, value=Serdes.long())


def upper() -> Topology:
    b = StreamsBuilder()
    b.stream("in", CONSUMED).map_values(lambda v: v.upper()).to("out", PRODUCED)
    return b.build()


def counts() -> Topology:
    b = StreamsBuilder()
    b.stream("in", CONSUMED).group_by_key(Grouped(key=STRING, value=STRING)).count("n").to_stream().to("out", COUNTED)
    return b.build()


def test_a_record_goes_all_the_way_through() -> None:
    with TopologyTestDriver(upper()) as d:
        i = d.input_topic("in", key=STRING, value=STRING)
        o = d.output_topic("out", key=STRING, value=STRING)
        assert o.is_empty
        i.pipe("k", "v", timestamp=5, headers=[("h", b"1"), ("h", None)])
        assert not o.is_empty
        assert o.read_all() == [Record("k", "V", 5, (("h", b"1"), ("h", None)))]
        assert o.is_empty


def test_serdes_left_out_are_those_of_the_source_and_the_sink() -> None:
    with TopologyTestDriver(counts()) as d:
        d.input_topic("in").pipe("a", "x", 1)
        assert d.output_topic("out").read() == Record("a", 1, 1)
        assert d.output_topic(f"{d.application_id}-n-changelog").read() == Record("a", 1, 1)


def test_ways_to_read() -> None:
    with TopologyTestDriver(upper()) as d:
        i, o = d.input_topic("in"), d.output_topic("out")
        pairs = [("a", "1"), ("b", "2"), ("a", "3")]
        i.pipe_all(pairs)
        assert o.read_key_values() == pairs
        i.pipe_all(pairs)
        assert o.read_values() == ["1", "2", "3"]
        i.pipe_all(pairs)
        assert o.read_map() == {"a": "3", "b": "2"}
        i.pipe_all([Record("z", "9", 4)])
        assert (len(o), o.read()) == (1, Record("z", "9", 4))
        with pytest.raises(EmptyTopicError, match="out has no record left"):
            o.read()


def test_records_without_a_timestamp_have_the_topics_own_time() -> None:
    with TopologyTestDriver(upper(), initial_wall_clock=100) as d:
        plain, ticking = d.input_topic("in"), d.input_topic("in", start=7, auto_advance=timedelta(milliseconds=3))
        o = d.output_topic("out")
        plain.pipe("k", "v")
        plain.advance_time(timedelta(milliseconds=5))
        plain.pipe("k", "v")
        ticking.pipe("k", "v")
        ticking.pipe("k", "v")
        plain.pipe_all([("k", "v"), ("k", "v")], start=50, advance=timedelta(milliseconds=10))
        assert [record.timestamp for record in o.read_all()] == [100, 105, 7, 10, 50, 60]


def test_unknown_names_are_errors_that_list_the_known_ones() -> None:
    with TopologyTestDriver(counts(), StreamsConfig(application_id="app")) as d:
        with pytest.raises(UnknownTopicError, match=r"Unknown topic: inn. The topology reads: in\."):
            d.input_topic("inn")
        with pytest.raises(
            UnknownTopicError, match=r"Unknown topic: n. The topology writes to: out, app-n-changelog\."
        ):
            d.output_topic("n")
        with pytest.raises(UnknownStoreError, match=r"There is no store m. The topology's stores: n\."):
            d.store("m")


def test_a_missing_serde_is_an_error_before_any_record_with_the_node_and_the_users_line() -> None:
    b = StreamsBuilder()
    b.stream("in").to("out")
    topology = b.build()
    with pytest.raises(ConfigError, match=r"No key serde for sink node KSTREAM-SINK-0000000001 \(.*test_driver.py:\d+"):
        TopologyTestDriver(topology)
    with TopologyTestDriver(topology, StreamsConfig(default_key_serde=STRING, default_value_serde=STRING)) as d:
        d.input_topic("in").pipe("k", "v", 1)
        assert d.output_topic("out").read() == Record("k", "v", 1)


def test_repartition_topics_go_in_again_and_show_in_produced_in_order() -> None:
    b = StreamsBuilder()
    grouped = b.stream("in", CONSUMED).group_by(lambda k, v: v, Grouped(key=STRING, value=STRING, name="by-value"))
    grouped.count(Materialized("n")).to_stream().to("out", COUNTED)
    with TopologyTestDriver(b.build(), StreamsConfig(application_id="app")) as d:
        d.input_topic("in").pipe("k", "v", 3)
        assert [topic for topic, _ in d.produced()] == ["app-by-value-repartition", "app-n-changelog", "out"]
        assert d.produced()[0][1] == Record(b"v", b"v", 3)
        assert d.output_topic("app-by-value-repartition").read_all() == [Record("v", "v", 3)]
        assert d.produced_topics() == {"app-by-value-repartition", "app-n-changelog", "out"}


def test_an_output_that_the_topology_reads_goes_in_again() -> None:
    b = StreamsBuilder()
    b.stream("in", CONSUMED).to("between", PRODUCED)
    b.stream("between", CONSUMED).map_values(lambda v: v + "!").to("out", PRODUCED)
    with TopologyTestDriver(b.build()) as d:
        d.input_topic("in").pipe("k", "v", 3)
        assert d.output_topic("between").read_values() == ["v"]
        assert d.output_topic("out").read_values() == ["v!"]


def test_patterns_and_dynamic_topics() -> None:
    b = StreamsBuilder()
    b.stream(re.compile("in-.*"), CONSUMED).to(lambda k, v, ctx: f"out-{ctx.topic}-{ctx.offset}", PRODUCED)
    with TopologyTestDriver(b.build()) as d:
        d.input_topic("in-a", STRING, STRING).pipe("k", "v", 1)
        d.input_topic("in-b", STRING, STRING).pipe("k", "v", 1)
        assert [topic for topic, _ in d.produced()] == ["out-in-a-0", "out-in-b-1"]
        assert d.output_topic("out-in-b-1", STRING, STRING).read_values() == ["v"]
        with pytest.raises(UnknownTopicError, match="pattern in-"):
            d.input_topic("other")


def test_global_tables_are_filled_and_joined_but_start_nothing() -> None:
    b = StreamsBuilder()
    names = b.global_table("names", CONSUMED, Materialized("names-store"))
    stream = b.stream("in", CONSUMED)
    stream.join(names, lambda v, name: f"{v} {name}", key=lambda k, v: v).to("out", PRODUCED)
    b.stream("renames", CONSUMED).to("names", PRODUCED)
    with TopologyTestDriver(b.build()) as d:
        i, g, o = d.input_topic("in"), d.input_topic("names"), d.output_topic("out")
        i.pipe("k", "1", 1)
        g.pipe("1", "one", 2)
        i.pipe("k", "1", 3)
        d.input_topic("renames").pipe("1", "uno", 4)
        i.pipe("k", "1", 5)
        assert o.read_values() == ["1 one", "1 uno"]
        assert d.store("names-store").get("1") == "uno"
        assert [topic for topic, _ in d.produced()] == ["out", "names", "out"]


def test_caches_are_flushed_after_each_record() -> None:
    with TopologyTestDriver(counts()) as d:
        i = d.input_topic("in")
        for timestamp in range(3):
            i.pipe("a", "x", timestamp)
        assert d.output_topic("out").read_values() == [1, 2, 3]


def test_by_hand_only_the_last_update_of_each_key_goes_on() -> None:
    with TopologyTestDriver(counts(), commit="manual") as d:
        i, o = d.input_topic("in"), d.output_topic("out")
        for key in "abaab":
            i.pipe(key, "x", 0)
        assert o.is_empty
        assert d.store("n").get("a") == 3
        d.commit()
        assert o.read_key_values() == [("a", 3), ("b", 2)]
        d.commit()
        assert o.is_empty
        i.pipe("a", "x", 0)
    assert o.read_key_values() == [("a", 4)]


def test_a_commit_after_every_few_records() -> None:
    with TopologyTestDriver(counts(), commit=2) as d:
        i, o = d.input_topic("in"), d.output_topic("out")
        for _ in range(5):
            i.pipe("a", "x", 0)
        assert o.read_values() == [2, 4]


def test_without_a_cache_every_update_goes_on_at_once() -> None:
    with TopologyTestDriver(counts(), StreamsConfig(cache_max_bytes=0), commit="manual") as d:
        i = d.input_topic("in")
        i.pipe_all([("a", "x"), ("a", "x")])
        assert d.output_topic("out").read_values() == [1, 2]


@pytest.mark.parametrize("commit", ["sometimes", 0, -1, True])
def test_a_wrong_commit_is_refused(commit: Any) -> None:
    with pytest.raises(ConfigError, match="commit must be"):
        TopologyTestDriver(upper(), commit=commit)


def test_dropped_records_are_counted_by_reason() -> None:
    with TopologyTestDriver(counts()) as d:
        i = d.input_topic("in")
        i.pipe(None, "x", 0)
        i.pipe("a", None, 0)
        assert d.dropped_records.total() == 2
        assert d.dropped_records["null key or value"] == 2


def test_a_closed_driver_can_be_read_but_not_piped_into() -> None:
    d = TopologyTestDriver(upper())
    i, o = d.input_topic("in"), d.output_topic("out")
    i.pipe("k", "v", 0)
    d.close()
    d.close()
    assert o.read_values() == ["V"]
    with pytest.raises(StreamsError, match="closed"):
        i.pipe("k", "v", 0)


def test_another_driver_goes_on_from_a_state_as_often_as_wanted() -> None:
    with TopologyTestDriver(counts(), initial_wall_clock=7) as d:
        d.input_topic("in").pipe("a", "x", 1)
        state = d.state()
        d.input_topic("in").pipe("a", "x", 2)
    for _ in range(2):
        with TopologyTestDriver(counts(), state=state) as again:
            assert (again.wall_clock, again.store("n").get("a")) == (7, 1)
            again.input_topic("in").pipe("a", "x", 3)
            assert again.output_topic("out").read_all() == [Record("a", 2, 3)]
            assert again.state().offsets == {"in": 2}
