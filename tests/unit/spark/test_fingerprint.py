"""Which changes of a topology its state survives."""

from __future__ import annotations

from headrace import Consumed, Serdes, StreamsBuilder, Topology
from headrace.kafka.partitions import plan_partitions
from headrace.spark.fingerprint import Fingerprint, differences, fingerprint

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


def of(topology: Topology, **partitions: int) -> Fingerprint:
    return fingerprint(topology, plan_partitions(topology, partitions))


def test_tasks_without_state_may_become_more() -> None:
    first = of(counting("a", plain=("p",)), a=2, p=2)
    assert differences(first, of(counting("a", plain=("p",)), a=2, p=4)) == []
    assert differences(first, of(counting("a", plain=("p", "q")), a=2, p=4, q=1)) == []


def test_tasks_with_state_may_not() -> None:
    assert differences(of(counting("a"), a=2), of(counting("a"), a=3)) == ["sub-topology 0 had 2 tasks and has 3 now"]


def test_a_store_stays_in_its_sub_topology() -> None:
    changes = differences(of(counting("a", "b"), a=2, b=2), of(counting("b", "a"), a=2, b=2))
    assert "store a was in sub-topology 0 and is in sub-topology 1 now" in changes


def test_a_store_that_is_gone_would_be_lost() -> None:
    assert differences(of(counting("a"), a=1), of(counting(plain=("a",)), a=1)) == [
        "store a (timestamped key-value) is gone"
    ]


def test_global_tables_are_read_from_their_topics() -> None:
    with_table = of(counting(plain=("p",), everywhere=("g",)), p=1, g=1)
    assert differences(with_table, of(counting(plain=("p",)), p=2)) == []
