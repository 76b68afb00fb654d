from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from headrace import (
    Consumed,
    Processor,
    Produced,
    PunctuationType,
    Record,
    Serde,
    Serdes,
    StreamsBuilder,
    StreamsConfig,
    Topology,
)
from headrace.errors import DeserializationFailed, ProcessingFailed, ProductionFailed, StreamsError
from headrace.task.handlers import CONTINUE, FAIL, ErrorContext, LogAndContinue, OutputRecord, Response
from headrace.testing import TopologyTestDriver

STRING = Serdes.string()
LONG = Serdes.long()
CONSUMED = Consumed(key=STRING, value=STRING)
PRODUCED = Produced(key=STRING, value=STRING)


def fail_on_bad(value: str) -> str:
    if value == "bad":
        raise ValueError("bad value")
    return value


def two_branches() -> Topology:
    b = StreamsBuilder()
    stream = b.stream("in", CONSUMED)
    stream.map_values(fail_on_bad).to("checked", PRODUCED)
    stream.to("all", PRODUCED)
    return b.build()


# --- processing --------------------------------------------------------------------------------------------------


def test_an_error_in_a_node_stops_and_says_where() -> None:
    with TopologyTestDriver(two_branches()) as d:
        i = d.input_topic("in")
        i.pipe("k", "good", 1)
        with pytest.raises(ProcessingFailed) as raised:
            i.pipe("k", "bad", 2)
        message = str(raised.value)
        assert "node KSTREAM-MAPVALUES-0000000001" in message
        assert "test_error_handling.py:" in message
        assert "topic in, partition 0, offset 1" in message
        assert "ValueError: bad value" in message
        assert isinstance(raised.value.__cause__, ValueError)
        assert d.output_topic("all").read_values() == ["good"]


def test_to_continue_drops_the_record_at_that_node_and_the_rest_goes_on() -> None:
    config = StreamsConfig(processing_exception_handler=LogAndContinue)
    with TopologyTestDriver(two_branches(), config) as d:
        d.input_topic("in").pipe_all([("k", "bad"), ("k", "good")])
        assert d.output_topic("checked").read_values() == ["good"]
        assert d.output_topic("all").read_values() == ["bad", "good"]
        assert d.dropped_records == {"processing error": 1}


def test_only_the_node_that_raised_is_asked_about() -> None:
    asked: list[tuple[ErrorContext, Any, Exception]] = []

    def handler(context: ErrorContext, record: Any, error: Exception) -> Any:
        asked.append((context, record, error))
        return FAIL

    b = StreamsBuilder()
    stream = b.stream("in", CONSUMED).map_values(lambda v: v.lower()).select_key(lambda k, v: v)
    stream.map_values(fail_on_bad).to("out", PRODUCED)
    config = StreamsConfig(processing_exception_handler=handler, default_key_serde=STRING, default_value_serde=STRING)
    with TopologyTestDriver(b.build(), config) as d, pytest.raises(ProcessingFailed):
        d.input_topic("in").pipe("k", "BAD", 5, [("h", b"1")])
    [(context, record, error)] = asked
    assert (context.topic, context.partition, context.offset, context.timestamp) == ("in", 0, 0, 5)
    assert (context.node, context.task_id) == ("KSTREAM-MAPVALUES-0000000003", "0_0")
    assert (context.raw_key, context.raw_value, context.headers) == (b"k", b"BAD", (("h", b"1"),))
    assert record == Record("bad", "bad", 5, (("h", b"1"),))
    assert str(error) == "bad value"


def test_a_handler_that_fails_or_answers_nonsense_stops() -> None:
    handlers: list[Any] = [lambda context, record, error: 1 / 0, lambda context, record, error: "continue"]
    for handler in handlers:
        config = StreamsConfig(processing_exception_handler=handler)
        with (
            TopologyTestDriver(two_branches(), config) as d,
            pytest.raises(ProcessingFailed, match="Fatal user code error in processing_exception_handler"),
        ):
            d.input_topic("in").pipe("k", "bad", 1)


def test_dead_letters_have_kafka_streams_headers() -> None:
    config = StreamsConfig(processing_exception_handler=LogAndContinue, dead_letter_queue_topic="dead")
    with TopologyTestDriver(two_branches(), config) as d:
        d.input_topic("in").pipe("k", "bad", 5, [("h", b"1")])
        [letter] = d.output_topic("dead").read_all()
    assert (letter.key, letter.value, letter.timestamp) == (b"k", b"bad", 5)
    names = [name for name, _ in letter.headers]
    assert names == [
        "h",
        "__streams.errors.exception",
        "__streams.errors.message",
        "__streams.errors.stacktrace",
        "__streams.errors.topic",
        "__streams.errors.partition",
        "__streams.errors.offset",
    ]
    headers = dict(letter.headers)
    assert headers["__streams.errors.exception"] == b"ValueError"
    assert headers["__streams.errors.message"] == b"bad value"
    assert b"fail_on_bad" in (headers["__streams.errors.stacktrace"] or b"")
    assert headers["__streams.errors.topic"] == b"in"
    assert headers["__streams.errors.partition"] == b"0"
    assert headers["__streams.errors.offset"] == b"0"


def test_log_and_fail_sends_a_dead_letter_too() -> None:
    with TopologyTestDriver(two_branches(), StreamsConfig(dead_letter_queue_topic="dead")) as d:
        with pytest.raises(ProcessingFailed):
            d.input_topic("in").pipe("k", "bad", 5)
        d.advance_wall_clock(timedelta(0))
        assert len(d.output_topic("dead")) == 1


def test_a_handlers_own_dead_letters() -> None:
    def handler(context: ErrorContext, record: Any, error: Exception) -> Response:
        return Response.resume([OutputRecord("mine", context.raw_key, b"oops", 9)])

    config = StreamsConfig(processing_exception_handler=handler, dead_letter_queue_topic="dead")
    with TopologyTestDriver(two_branches(), config) as d:
        d.input_topic("in").pipe("k", "bad", 5)
        assert d.output_topic("mine", STRING, STRING).read_all() == [Record("k", "oops", 9)]
        assert d.output_topic("dead").is_empty


class Ticking(Processor[str, str]):
    def init(self, ctx: Any) -> None:
        ctx.schedule(timedelta(milliseconds=10), PunctuationType.WALL_CLOCK_TIME, self.tick)

    def process(self, record: Record[str, str]) -> None: ...

    def tick(self, timestamp: int) -> None:
        raise ValueError("no tick")


def test_errors_in_punctuations_are_handled_too() -> None:
    topology = Topology().add_source("source", "in", key=STRING, value=STRING).add_processor("p", Ticking, "source")
    records: list[Any] = []

    def handler(context: ErrorContext, record: Any, error: Exception) -> Any:
        records.append((context.node, context.topic, record))
        return CONTINUE

    with TopologyTestDriver(topology, StreamsConfig(processing_exception_handler=handler)) as d:
        d.advance_wall_clock(timedelta(milliseconds=10))
        assert records == [("p", None, None)]
        assert d.dropped_records.total() == 1
    with (
        TopologyTestDriver(topology) as d,
        pytest.raises(ProcessingFailed, match=r"while punctuating.*node p.*no tick"),
    ):
        d.advance_wall_clock(timedelta(milliseconds=10))


# --- deserialization ---------------------------------------------------------------------------------------------


def numbers() -> Topology:
    b = StreamsBuilder()
    b.stream("in", Consumed(key=STRING, value=LONG)).to("out", Produced(key=STRING, value=LONG))
    return b.build()


def test_bytes_that_cannot_be_read_stop() -> None:
    with (
        TopologyTestDriver(numbers()) as d,
        pytest.raises(DeserializationFailed, match="node KSTREAM-SOURCE-0000000000, topic in, partition 0, offset 0"),
    ):
        d.input_topic("in", STRING, STRING).pipe("k", "v", 1)


def test_bytes_that_cannot_be_read_are_skipped_and_counted() -> None:
    config = StreamsConfig(deserialization_exception_handler=LogAndContinue, dead_letter_queue_topic="dead")
    with TopologyTestDriver(numbers(), config) as d:
        d.input_topic("in", STRING, STRING).pipe("k", "v", 1)
        d.input_topic("in").pipe("k", 7, 2)
        assert d.output_topic("out").read_values() == [7]
        assert d.dropped_records == {"deserialization error": 1}
        [letter] = d.output_topic("dead", STRING, STRING).read_all()
        assert (letter.key, letter.value, letter.timestamp) == ("k", "v", 1)


def test_the_deserialization_handler_sees_the_bytes() -> None:
    seen: list[Any] = []

    def handler(context: ErrorContext, record: Any, error: Exception) -> Any:
        seen.append((context.node, record.topic, record.offset, record.key, record.value))
        return CONTINUE

    with TopologyTestDriver(numbers(), StreamsConfig(deserialization_exception_handler=handler)) as d:
        d.input_topic("in", STRING, STRING).pipe("k", "v", 1)
    assert seen == [("KSTREAM-SOURCE-0000000000", "in", 0, b"k", b"v")]


# --- production --------------------------------------------------------------------------------------------------


def refuse(value: Any) -> bytes:
    raise ValueError(f"cannot write {value}")


def unwritable(mapped: bool) -> Topology:
    b = StreamsBuilder()
    stream = b.stream("in", CONSUMED)
    stream = stream.map_values(lambda v: v) if mapped else stream
    stream.to("out", Produced(key=STRING, value=Serde(refuse, lambda data: data)))
    return b.build()


@pytest.mark.parametrize("mapped", [False, True])
def test_a_value_that_cannot_be_serialized_stops(mapped: bool) -> None:
    with (
        TopologyTestDriver(unwritable(mapped)) as d,
        pytest.raises(
            ProductionFailed, match=r"value of a record \(str\).*topic out.*node KSTREAM-SINK.*cannot write v"
        ),
    ):
        d.input_topic("in").pipe("k", "v", 1)


def test_a_value_that_cannot_be_serialized_is_dropped_and_counted() -> None:
    seen: list[Any] = []

    def handler(context: ErrorContext, record: Any, error: Exception) -> Any:
        seen.append((context.origin, record.topic, record.key, record.value))
        return CONTINUE

    with TopologyTestDriver(unwritable(True), StreamsConfig(production_exception_handler=handler)) as d:
        d.input_topic("in").pipe("k", "v", 1)
        assert d.dropped_records == {"serialization error": 1}
    assert seen == [("value", "out", "k", "v")]


def test_a_failed_sink_is_a_failed_node_to_the_processing_handler_above_it() -> None:
    config = StreamsConfig(processing_exception_handler=LogAndContinue)
    with TopologyTestDriver(unwritable(True), config) as d:
        d.input_topic("in").pipe("k", "v", 1)
        assert d.dropped_records == {"processing error": 1}


def test_a_topic_function_must_give_a_name() -> None:
    b = StreamsBuilder()
    b.stream("in", CONSUMED).to(lambda k, v, ctx: None, PRODUCED)
    with TopologyTestDriver(b.build()) as d, pytest.raises(StreamsError, match="must return a name, not None"):
        d.input_topic("in").pipe("k", "v", 1)
