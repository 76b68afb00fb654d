"""Tables and the operators on one table."""

from __future__ import annotations

from headrace import Consumed, Grouped, Materialized, Serdes, Stores
from tests.oracle.scenario import Config, pipe, scenario, trace
from tests.oracle.scenarios.common import LONGS, OUT, OUT_LONG, STRINGS, L, S

UPDATES = [
    pipe("in", "a", "1", 10),
    pipe("in", "b", "22", 11),
    pipe("in", "a", "333", 12),
    pipe("in", "a", "4", 5),
    pipe("in", None, "9", 13),
    pipe("in", "b", None, 14),
    pipe("in", "b", None, 15),
    pipe("in", "c", None, 16),
    pipe("in", "a", "4", 16),
    pipe("in", "b", "55", 3),
]
NUMBERS = [
    pipe("in", "a", 1, 10, (("h", b"1"),)),
    pipe("in", "b", 2, 11),
    pipe("in", "a", 3, 12, (("h", b"2"),)),
    pipe("in", "a", 4, 5),
    pipe("in", "a", None, 14),
    pipe("in", "b", 2, 14),
    pipe("in", "c", 7, 1),
    pipe("in", "a", None, 15),
]


@scenario("table", "materialized, out of order, tombstones, null keys", UPDATES)
def _(b):
    b.table("in", STRINGS, Materialized("store")).to_stream().to("out", OUT)


@scenario("table", "not materialized", UPDATES)
def _(b):
    b.table("in", STRINGS).to_stream().to("out", OUT)


@scenario("table", "store without cache", UPDATES)
def _(b):
    b.table("in", STRINGS, Materialized("store", caching=False)).to_stream().to("out", OUT)


@scenario("table", "store without changelog", UPDATES)
def _(b):
    b.table("in", STRINGS, Materialized("store", logging=False)).to_stream().to("out", OUT)


@scenario("table", "named source", UPDATES)
def _(b):
    b.table("in", Consumed(S, S, name="tab"), "store").to_stream(name="changes").to("out", OUT)


@scenario("table", "store that nobody names", UPDATES)
def _(b):
    t = b.table("in", STRINGS, Materialized(key=S, value=S))
    trace(t.queryable_store_name)
    t.to_stream().to("out", OUT)


@scenario("KTable.filter", "not materialized", NUMBERS)
def _(b):
    b.table("in", LONGS).filter(lambda k, v: v % 2 == 1).to_stream().to("out", OUT_LONG)


@scenario("KTable.filter", "of a materialized table", NUMBERS)
def _(b):
    b.table("in", LONGS, "store").filter(lambda k, v: v % 2 == 1, name="odd").to_stream().to("out", OUT_LONG)


@scenario("KTable.filter", "materialized", NUMBERS)
def _(b):
    b.table("in", LONGS).filter(lambda k, v: v % 2 == 1, Materialized("odd", key=S, value=L)).to_stream().to(
        "out", OUT_LONG
    )


@scenario("KTable.filter_not", "materialized and named", NUMBERS)
def _(b):
    t = b.table("in", LONGS, "all").filter_not(
        lambda k, v: v > 2, Materialized("small", key=S, value=L), name="up-to-two"
    )
    trace(t.queryable_store_name)
    t.to_stream().to("out", OUT_LONG)


@scenario("KTable.map_values", "not materialized", NUMBERS)
def _(b):
    t = b.table("in", LONGS, "store").map_values(lambda v: v * 10)
    trace(t.queryable_store_name)
    t.to_stream().to("out", OUT_LONG)


@scenario("KTable.map_values", "materialized, with the key", NUMBERS)
def _(b):
    b.table("in", LONGS).map_values(lambda k, v: f"{k}{v}", Materialized("text", key=S, value=S)).to_stream().to(
        "out", OUT
    )


@scenario("KTable.map_values", "to null", NUMBERS)
def _(b):
    t = b.table("in", LONGS, "store").map_values(
        lambda v: None if v > 2 else v, Materialized("mapped", key=S, value=L), name="m"
    )
    t.to_stream().to("out", OUT_LONG)


@scenario("KTable chain", "filter, map, filter, grouped", NUMBERS)
def _(b):
    (
        b.table("in", LONGS)
        .filter(lambda k, v: v < 4)
        .map_values(lambda v: v + 1)
        .filter_not(lambda k, v: v == 3)
        .to_stream()
        .to("out", OUT_LONG)
    )


@scenario("KTable chain", "the same with a store at the end", NUMBERS)
def _(b):
    (
        b.table("in", LONGS)
        .filter(lambda k, v: v < 4)
        .map_values(lambda v: v + 1)
        .filter_not(lambda k, v: v == 3, Materialized("end", key=S, value=L))
        .to_stream()
        .to("out", OUT_LONG)
    )


@scenario("KTable.to_stream", "with a new key, then counted", NUMBERS)
def _(b):
    (
        b.table("in", LONGS, "store")
        .to_stream(lambda k, v: f"{k}{v}", name="rekey")
        .group_by_key(Grouped(S, L))
        .count("n")
        .to_stream()
        .to("out", OUT_LONG)
    )


@scenario("KStream.to_table", "materialized", UPDATES)
def _(b):
    b.stream("in", STRINGS).to_table(Materialized("store", key=S, value=S)).to_stream().to("out", OUT)


@scenario("KStream.to_table", "not materialized, named", UPDATES)
def _(b):
    b.stream("in", STRINGS).to_table(name="table-of").to_stream().to("out", OUT)


@scenario("KStream.to_table", "after a change of key", [event for event in UPDATES if event.value is not None])
def _(b):
    (
        b.stream("in", STRINGS)
        .select_key(lambda k, v: str(len(v)))
        .to_table(Materialized("by-size", key=S, value=S))
        .to_stream()
        .to("out", OUT)
    )


@scenario("KStream.to_table", "used twice", UPDATES)
def _(b):
    t = b.stream("in", STRINGS).to_table(Materialized("store", key=S, value=S))
    t.filter(lambda k, v: len(v) > 1).to_stream().to("long", OUT)
    t.map_values(lambda v: v + "!").to_stream().to("loud", OUT)


class Remember:
    """Appends what it saw before for the key."""

    def init(self, ctx):
        self.store = ctx.state_store("memory")

    def transform(self, k, v):
        before = self.store.get(k)
        self.store.put(k, v)
        return None if v is None else f"{before}>{v}"

    def close(self):
        trace("closed")


@scenario("KTable.transform_values", "with a store", UPDATES)
def _(b):
    b.add_state_store(Stores.key_value("memory", key=S, value=S))
    b.table("in", STRINGS).transform_values(Remember, stores=("memory",)).to_stream().to("out", OUT)


@scenario("KTable.transform_values", "materialized and named", UPDATES)
def _(b):
    b.add_state_store(Stores.key_value("memory", key=S, value=S))
    t = b.table("in", STRINGS, "store").transform_values(
        Remember, Materialized("result", key=S, value=S), ("memory",), name="remember"
    )
    t.to_stream().to("out", OUT)


class Sizes:
    """The size of the value."""

    def init(self, ctx):
        pass

    def transform(self, k, v):
        return 0 if v is None else len(v)

    def close(self):
        pass


@scenario("KTable.transform_values", "a null becomes a value, then grouped", UPDATES)
def _(b):
    (
        b.table("in", STRINGS, "store")
        .transform_values(Sizes)
        .group_by(lambda k, v: ("sum", v), Grouped(S, L))
        .reduce(lambda a, v: a + v, lambda a, v: a - v, Materialized("sum", key=S, value=L))
        .to_stream()
        .to("out", OUT_LONG)
    )


@scenario("table", "default serdes", UPDATES, Config(default_key_serde=S, default_value_serde=S))
def _(b):
    b.table("in", materialized="store").map_values(lambda v: v + "!", "loud").to_stream().to("out")


@scenario("table", "ordered by bytes in its store", [pipe("in", key, "v", 0) for key in ("b", "aa", "é", "a", "Z", "")])
def _(b):
    b.table("in", STRINGS, "store")


@scenario(
    "table", "json values", [pipe("in", "a", {"n": 1}, 0), pipe("in", "a", {"n": 2}, 0), pipe("in", "a", None, 0)]
)
def _(b):
    b.table("in", Consumed(S, Serdes.json()), Materialized("store")).map_values(lambda v: v["n"]).to_stream().to(
        "out", OUT_LONG
    )
