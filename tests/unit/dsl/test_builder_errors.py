"""What is wrong in a DSL topology is found when it is built, with the user's own file and line."""

from datetime import timedelta

import pytest

from headrace import (
    BufferConfig,
    Consumed,
    EmitStrategy,
    Joined,
    JoinWindows,
    Materialized,
    Repartitioned,
    Serdes,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    UnlimitedWindows,
)
from headrace.errors import ArityError, ConfigError, TopologyError

SECOND = timedelta(seconds=1)
HERE = r"\(.*test_builder_errors.py:\d+\)"


@pytest.fixture
def builder():
    return StreamsBuilder()


@pytest.mark.parametrize(
    ("name", "function", "signature"),
    [
        ("filter", lambda v: v, "k, v"),
        ("filter_not", lambda v: v, "k, v"),
        ("map", lambda v: v, "k, v"),
        ("map_values", lambda k, v, x: v, r"v\) or \(k, v"),
        ("flat_map", lambda v: v, "k, v"),
        ("flat_map_values", lambda: (), r"v\) or \(k, v"),
        ("select_key", lambda v: v, "k, v"),
        ("peek", lambda v: v, "k, v"),
        ("foreach", lambda v: v, "k, v"),
        ("group_by", lambda v: v, "k, v"),
        ("to", lambda v: v, "k, v, context"),
    ],
)
def test_a_function_of_the_wrong_arity(builder, name, function, signature):
    with pytest.raises(ArityError, match=rf"{name} needs a function of \({signature}\).*{HERE}"):
        getattr(builder.stream("in"), name)(function)


def test_aggregations_check_their_functions(builder):
    grouped = builder.stream("in").group_by_key()
    with pytest.raises(ArityError, match=r"aggregate aggregator needs a function of \(k, v, agg\)"):
        grouped.aggregate(lambda: 0, lambda v, agg: agg)
    with pytest.raises(ArityError, match=r"aggregate initializer needs a function of \(\)"):
        grouped.aggregate(lambda x: 0, lambda k, v, agg: agg)
    with pytest.raises(ArityError, match=r"reduce needs a function of \(a, b\)"):
        grouped.reduce(lambda a: a)


def test_a_joiner_takes_two_or_three(builder):
    with pytest.raises(ArityError, match=r"join needs a function of \(a, b\) or \(k, a, b\)"):
        builder.stream("in").join(builder.table("t"), lambda a: a)


def test_two_stores_of_one_name(builder):
    grouped = builder.stream("in").group_by_key()
    grouped.count("n")
    grouped.count("n")
    with pytest.raises(TopologyError, match="two stores have the name 'n'"):
        builder.build()


def test_two_nodes_of_one_name(builder):
    stream = builder.stream("in")
    stream.filter(lambda k, v: True, name="same")
    stream.filter(lambda k, v: True, name="same")
    with pytest.raises(TopologyError, match=rf"two nodes have the name 'same' {HERE}"):
        builder.build()


def test_a_store_nobody_uses(builder):
    from headrace import Stores

    builder.add_state_store(Stores.key_value("lonely", key=Serdes.string(), value=Serdes.string()))
    builder.stream("in").to("out")
    with pytest.raises(TopologyError, match="store 'lonely' was added, but no processor is connected"):
        builder.build()


def test_illegal_names(builder):
    with pytest.raises(TopologyError, match="only letters, digits"):
        builder.stream("in").filter(lambda k, v: True, name="has space")
    with pytest.raises(TopologyError, match="topic 'a/b' is illegal"):
        builder.stream("a/b")


def test_overlapping_sources(builder):
    builder.stream(["a", "b"])
    builder.stream(["b", "c"])
    with pytest.raises(TopologyError, match=r"topic 'b' is read by two sources .*\['a', 'b'\].*\['b', 'c'\]"):
        builder.build()


def test_two_offset_resets_for_one_topic(builder):
    builder.stream("in", Consumed(offset_reset="earliest"))
    builder.stream("in", Consumed(offset_reset="latest"))
    with pytest.raises(TopologyError, match="two offset_reset settings"):
        builder.build()
    with pytest.raises(TopologyError, match="offset_reset must be"):
        builder.stream("x", Consumed(offset_reset="soon"))


def test_repartitions_of_different_sizes_cannot_be_joined(builder):
    left = builder.stream("a").repartition(Repartitioned(name="left", partitions=2))
    right = builder.stream("b").repartition(Repartitioned(name="right", partitions=3))
    left.join(right, lambda a, b: a, windows=JoinWindows.of(SECOND))
    with pytest.raises(TopologyError, match="left-repartition has 2, right-repartition has 3"):
        builder.build()


def test_joins_say_what_they_need(builder):
    stream, table = builder.stream("in"), builder.table("t")
    with pytest.raises(TopologyError, match="needs windows=JoinWindows"):
        stream.join(builder.stream("b"), lambda a, b: a)
    with pytest.raises(TopologyError, match="takes no windows"):
        stream.join(table, lambda a, b: a, windows=JoinWindows.of(SECOND))
    with pytest.raises(TopologyError, match="global table needs key="):
        stream.join(builder.global_table("g"), lambda a, b: a)
    with pytest.raises(TopologyError, match="join needs a KStream, KTable or GlobalKTable"):
        stream.join("t", lambda a, b: a)
    with pytest.raises(TopologyError, match="outer_join needs another KStream"):
        stream.outer_join(table, lambda a, b: a)


def test_grace_of_a_stream_table_join_needs_history(builder):
    stream = builder.stream("in")
    with pytest.raises(TopologyError, match="needs a versioned table"):
        stream.join(builder.table("plain", materialized="plain"), lambda a, b: a, joined=Joined(grace=SECOND))
    versioned = builder.table("t", materialized=Materialized.versioned("v", history_retention=SECOND))
    with pytest.raises(TopologyError, match="grace of 2000 ms is longer than the history of 1000 ms"):
        stream.join(versioned, lambda a, b: a, joined=Joined(grace=2 * SECOND))


def test_suppress_until_window_closes_needs_windows(builder):
    with pytest.raises(TopologyError, match="only be used on a windowed table"):
        builder.table("t").suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))
    with pytest.raises(ConfigError, match="never emits early"):
        Suppressed.until_window_closes(BufferConfig.max_records(3))


def test_suppress_and_versions_exclude_each_other(builder):
    table = builder.table("t", materialized=Materialized.versioned("v", history_retention=SECOND))
    with pytest.raises(TopologyError, match="cannot be used on a versioned table"):
        table.filter(lambda k, v: True).suppress(Suppressed.until_time_limit(SECOND, BufferConfig.unbounded()))


def test_windows_and_stores_check_their_times(builder):
    with pytest.raises(ConfigError, match="TimeWindows size must be at least 1 ms"):
        TimeWindows(size=timedelta(0))
    with pytest.raises(ConfigError, match="advance must not be larger"):
        TimeWindows(size=SECOND, advance=2 * SECOND)
    with pytest.raises(ConfigError, match=r"must be a datetime.timedelta, not int"):
        TimeWindows(size=15)
    windowed = builder.stream("in").group_by_key().windowed_by(TimeWindows(size=2 * SECOND, grace=SECOND))
    with pytest.raises(TopologyError, match="retention of window store 'w' is 1000 ms, but must be at least 3000 ms"):
        windowed.count(Materialized("w", retention=SECOND))
    with pytest.raises(TopologyError, match="never closes"):
        builder.stream("x").group_by_key().windowed_by(UnlimitedWindows()).emit_strategy(EmitStrategy.on_window_close())


def test_stores_given_as_a_string(builder):
    with pytest.raises(TopologyError, match=r"must be a tuple of names, e.g. \('seen',\)"):
        builder.stream("in").process(object, stores="seen")


def test_a_named_table_can_be_asked_for_its_store(builder):
    assert builder.table("t", materialized="rows").queryable_store_name == "rows"
    assert builder.table("u").queryable_store_name is None
    assert builder.stream("in").group_by_key().count("n").queryable_store_name == "n"
    assert builder.global_table("g", materialized="whole").queryable_store_name == "whole"
