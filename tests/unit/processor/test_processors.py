from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from headrace import (
    Consumed,
    FixedKeyProcessor,
    Materialized,
    Processor,
    PunctuationType,
    Record,
    Serdes,
    Stores,
    StreamsBuilder,
    StreamsConfig,
    Topology,
)
from headrace.errors import ConfigError, HeadraceError, ProcessingFailed, StreamsError, TopologyError, UnknownStoreError
from headrace.record import RecordMetadata
from headrace.testing import TopologyTestDriver

STRING = Serdes.string()
CONFIG = StreamsConfig(application_id="app", default_key_serde=STRING, default_value_serde=STRING)


def driver_of(supplier: Callable[[], Any], **options: Any) -> TopologyTestDriver:
    topology = Topology()
    topology.add_source("source", "in").add_processor("processor", supplier, "source")
    topology.add_state_store(Stores.key_value("seen", STRING, STRING), "processor")
    topology.add_sink("left", "left-out", "processor").add_sink("right", "right-out", "processor")
    return TopologyTestDriver(topology, CONFIG, initial_wall_clock=1000, **options)


def test_a_processor_sees_the_record_and_where_it_came_from() -> None:
    seen: list[Any] = []

    class Seeing(Processor[str, str]):
        def init(self, ctx: Any) -> None:
            assert ctx is self.ctx
            seen.append((ctx.task_id, ctx.application_id, ctx.record_metadata, ctx.current_stream_time_ms()))

        def process(self, record: Record[str, str]) -> None:
            ctx = self.ctx
            seen.append((record, ctx.record_metadata, ctx.current_stream_time_ms(), ctx.current_system_time_ms()))

        def close(self) -> None:
            seen.append("closed")

    with driver_of(Seeing) as d:
        d.input_topic("in").pipe("k", "v", 7, [("h", b"1")])
    record = Record("k", "v", 7, (("h", b"1"),))
    assert seen == [("0_0", "app", None, -1), (record, RecordMetadata("in", 0, 0), 7, 1000), "closed"]


def test_forward_goes_to_all_children_or_to_one() -> None:
    class Forwarding(Processor[str, str]):
        def process(self, record: Record[str, str]) -> None:
            self.ctx.forward(record.with_value("both").with_timestamp(9))
            self.ctx.forward(record.with_key("r").with_headers([("h", None)]), child="right")

    with driver_of(Forwarding) as d:
        d.input_topic("in").pipe("k", "v", 7)
        assert d.output_topic("left-out").read_all() == [Record("k", "both", 9)]
        assert d.output_topic("right-out").read_all() == [Record("k", "both", 9), Record("r", "v", 7, (("h", None),))]


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda ctx, record: ctx.forward(record, child="middle"), "Unknown downstream node: middle .*left, right"),
        (lambda ctx, record: ctx.forward(record.with_timestamp(-1)), "Timestamp may not be negative. Got: -1"),
        (lambda ctx, record: ctx.forward("text"), "forward.. takes a Record, not str"),
        (lambda ctx, record: ctx.state_store("other"), "there is no store other. The topology's stores: seen"),
        (lambda ctx, record: ctx.schedule(timedelta(0), PunctuationType.STREAM_TIME, print), "at least 1 ms"),
        (lambda ctx, record: ctx.schedule(timedelta(1), "wall clock", print), "PunctuationType.STREAM_TIME"),
    ],
)
def test_misuse_is_an_error_that_names_the_node(act: Callable[[Any, Any], None], message: str) -> None:
    class Misusing(Processor[str, str]):
        def process(self, record: Record[str, str]) -> None:
            act(self.ctx, record)

    with driver_of(Misusing) as d, pytest.raises(ProcessingFailed, match=f"(?i)node processor.*{message}"):
        d.input_topic("in").pipe("k", "v", 7)


def test_forward_outside_of_process_is_refused() -> None:
    contexts: list[Any] = []

    class Leaking(Processor[str, str]):
        def process(self, record: Record[str, str]) -> None:
            contexts.append(self.ctx)

    with driver_of(Leaking) as d:
        d.input_topic("in").pipe("k", "v", 7)
        with pytest.raises(StreamsError, match="outside process"):
            contexts[0].forward(Record("k", "v", 0))


def test_forward_in_init_is_refused() -> None:
    class Early(Processor[str, str]):
        def init(self, ctx: Any) -> None:
            ctx.forward(Record("k", "v", 0))

        def process(self, record: Record[str, str]) -> None: ...

    with pytest.raises(StreamsError, match="cannot be called in init"):
        driver_of(Early)


def test_a_store_that_is_not_connected_says_what_to_do() -> None:
    class Asking(Processor[str, str]):
        def init(self, ctx: Any) -> None:
            ctx.state_store("seen")

        def process(self, record: Record[str, str]) -> None: ...

    class Idle(Processor[str, str]):
        def process(self, record: Record[str, str]) -> None: ...

    topology = Topology().add_source("source", "in")
    topology.add_processor("asking", Asking, "source").add_processor("idle", Idle, "source")
    topology.add_state_store(Stores.key_value("seen", STRING, STRING), "idle")
    with pytest.raises(UnknownStoreError, match=r"Node asking .* no access to store seen.*stores=\('seen',\)"):
        TopologyTestDriver(topology, CONFIG)


def test_stores_keep_what_a_processor_puts_with_the_records_time() -> None:
    class Keeping(Processor[str, str]):
        def init(self, ctx: Any) -> None:
            self.seen = ctx.state_store("seen")

        def process(self, record: Record[str, str]) -> None:
            self.seen.put(record.key, record.value)

    with driver_of(Keeping) as d:
        d.input_topic("in").pipe("k", "v", 7)
        assert d.store("seen").get("k") == "v"
        assert d.produced() == [("app-seen-changelog", Record(b"k", b"v", 7))]


def test_a_global_store_is_read_only_in_processors() -> None:
    class Reading(Processor[str, str]):
        def init(self, ctx: Any) -> None:
            self.names = ctx.state_store("names")

        def process(self, record: Record[str, str]) -> None:
            found = self.names.get(record.key)
            self.ctx.forward(record.with_value(found.value))
            self.names.put(record.key, "changed")

    b = StreamsBuilder()
    b.global_table("names-topic", Consumed(key=STRING, value=STRING), Materialized("names"))
    b.stream("in").process(Reading).to("out")
    with TopologyTestDriver(b.build(), CONFIG) as d:
        d.input_topic("names-topic").pipe("k", "name", 1)
        with pytest.raises(ProcessingFailed, match="read-only"):
            d.input_topic("in").pipe("k", "v", 2)
        assert d.output_topic("out").read_values() == []
        d.input_topic("names-topic").pipe("z", "last", 3)
        d.advance_wall_clock(timedelta(0))
        assert d.output_topic("out").read_values() == ["name"]


def test_a_supplier_that_returns_one_object_is_refused() -> None:
    class Shared(Processor[str, str]):
        def process(self, record: Record[str, str]) -> None: ...

    shared = Shared()
    with pytest.raises(TopologyError):
        driver_of(lambda: shared)
    with pytest.raises(TopologyError):
        driver_of(shared)  # type: ignore[arg-type]


def test_a_fixed_key_processor_cannot_change_the_key() -> None:
    class Changing(FixedKeyProcessor[str, str]):
        def process(self, record: Record[str, str]) -> None:
            self.ctx.forward(record.with_value(record.value + "!"))
            if record.value == "change":
                self.ctx.forward(record.with_key("other"))

    b = StreamsBuilder()
    b.stream("in").process_values(Changing).to("out")
    with TopologyTestDriver(b.build(), CONFIG) as d:
        i, o = d.input_topic("in"), d.output_topic("out")
        i.pipe("k", "v", 0)
        assert o.read_key_values() == [("k", "v!")]
        with pytest.raises(ProcessingFailed, match="cannot change the key of a record from 'k' to 'other'"):
            i.pipe("k", "change", 0)


class Ticking(Processor[str, str]):
    kind = PunctuationType.STREAM_TIME

    def init(self, ctx: Any) -> None:
        self.schedule = ctx.schedule(timedelta(milliseconds=10), self.kind, self.tick)

    def process(self, record: Record[str, str]) -> None:
        if record.value == "stop":
            self.schedule.cancel()

    def tick(self, timestamp: int) -> None:
        assert self.ctx.record_metadata is None
        self.ctx.forward(Record("tick", str(timestamp), timestamp + 1), child="left")


def test_stream_time_punctuations_follow_the_records() -> None:
    with driver_of(Ticking) as d:
        i, o = d.input_topic("in"), d.output_topic("left-out")
        for timestamp in (3, 9, 10, 35, 39, 12, 40):
            i.pipe("k", "v", timestamp)
        assert [(record.value, record.timestamp) for record in o.read_all()] == [
            ("3", 4),
            ("10", 11),
            ("35", 36),
            ("40", 41),
        ]
        i.pipe("k", "stop", 100)
        assert o.is_empty
        d.advance_wall_clock(timedelta(days=1))
        assert o.is_empty


def test_wall_clock_punctuations_follow_the_clock() -> None:
    class ByClock(Ticking):
        kind = PunctuationType.WALL_CLOCK_TIME

    with driver_of(ByClock) as d:
        o = d.output_topic("left-out")
        d.input_topic("in").pipe("k", "v", 10**6)
        d.advance_wall_clock(timedelta(milliseconds=9))
        assert o.is_empty
        d.advance_wall_clock(timedelta(milliseconds=1))
        d.advance_wall_clock(timedelta(milliseconds=25))
        assert o.read_values() == ["1010", "1035"]
        assert d.wall_clock == 1035


def test_a_schedule_with_a_start_is_anchored_to_it() -> None:
    times: list[int] = []

    class Anchored(Processor[str, str]):
        def init(self, ctx: Any) -> None:
            ctx.schedule(timedelta(milliseconds=100), PunctuationType.WALL_CLOCK_TIME, times.append, start_time=950)

        def process(self, record: Record[str, str]) -> None: ...

    with driver_of(Anchored) as d:
        d.advance_wall_clock(timedelta(milliseconds=49))
        assert times == []
        d.advance_wall_clock(timedelta(milliseconds=1))
        assert times == [1050]


def test_commit_flushes_the_caches_soon() -> None:
    class Committing(Processor[str, str]):
        def init(self, ctx: Any) -> None:
            self.seen = ctx.state_store("seen")

        def process(self, record: Record[str, str]) -> None:
            self.seen.put(record.key, record.value)
            if record.value == "now":
                self.ctx.commit()

    topology = Topology().add_source("source", "in").add_processor("processor", Committing, "source")
    topology.add_state_store(Stores.key_value("seen", STRING, STRING, caching=True), "processor")
    with TopologyTestDriver(topology, CONFIG, commit="manual") as d:
        i = d.input_topic("in")
        i.pipe("k", "v", 1)
        assert d.produced() == []
        i.pipe("k", "now", 2)
        assert d.produced() == [("app-seen-changelog", Record(b"k", b"now", 2))]


def test_an_error_in_init_names_the_node() -> None:
    class Failing(Processor[str, str]):
        def init(self, ctx: Any) -> None:
            raise ValueError("no luck")

        def process(self, record: Record[str, str]) -> None: ...

    with pytest.raises(ProcessingFailed, match="Failed to initialize node processor: ValueError: no luck"):
        driver_of(Failing)


def test_the_retention_of_a_window_store_covers_its_windows() -> None:
    with pytest.raises(ConfigError, match="must be no smaller than its window size"):
        Stores.window("w", STRING, STRING, retention=timedelta(seconds=1), size=timedelta(seconds=2))
    spec = Stores.window(
        "w", retention=timedelta(seconds=2), size=timedelta(seconds=2), retain_duplicates=True, caching=True
    )
    assert (spec.retention_ms, spec.window_size_ms, spec.caching, spec.logging) == (2000, 2000, False, True)


def test_stores_need_a_name() -> None:
    with pytest.raises(HeadraceError, match="needs a name"):
        Stores.key_value("")
