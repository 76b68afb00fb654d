"""Compiled tasks: the same as node by node, told by what they send, drop and raise."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from headrace import (
    Consumed,
    Grouped,
    JoinWindows,
    Processor,
    Produced,
    PunctuationType,
    Record,
    Serdes,
    StreamJoined,
    StreamsBuilder,
    StreamsConfig,
    Topology,
)
from headrace.errors import ProcessingFailed, ProductionFailed
from headrace.operators.stream import MapValuesOperator
from headrace.state.memory import MemoryStore
from headrace.task.compiled import nodes
from headrace.task.compiled.setting import VARIABLE, Compilation
from headrace.task.handlers import CONTINUE, FAIL, ErrorContext, LogAndContinue
from headrace.task.record_queue import Numbered
from headrace.task.task import Task

TEXT = Serdes.string()
CONSUMED = Consumed(TEXT, TEXT)
PRODUCED = Produced(TEXT, TEXT)


class Pair(msgspec.Struct):
    a: int
    b: str


class Run:
    """A task and all that can be seen of it."""

    def __init__(
        self, topology: Topology, form: Compilation, *, stores: dict[str, MemoryStore] | None = None, **config: Any
    ) -> None:
        kept = {} if stores is None else stores
        self.sent: list[tuple[Any, ...]] = []
        self.asked: list[tuple[Any, ...]] = []
        self.raised: tuple[type[Exception], str] | None = None
        settings = {"application_id": "app", **config}
        handler = settings.get("processing_exception_handler")
        if handler in (CONTINUE, FAIL):
            settings["processing_exception_handler"] = self._asked(handler)
        self.task = Task(
            topology,
            StreamsConfig(**settings),
            application_id="app",
            ordered=lambda spec: kept.setdefault(spec.name, MemoryStore()),
            send=lambda *record: self.sent.append(_without_stack(record)),
            clock=lambda: 0,
            compilation=form,
        )

    def _asked(self, answer: Any) -> Callable[[ErrorContext, Any, Exception], Any]:
        def handler(context: ErrorContext, record: Any, error: Exception) -> Any:
            self.asked.append((context, record, type(error), str(error)))
            return answer

        return handler

    def all_at_once(self, rows: Iterable[Numbered], topic: str = "in") -> Run:
        queue = self.task.queue_of(topic)
        assert queue is not None
        return self._run(lambda: self.task.process_all(queue, topic, 3, rows))

    def one_by_one(self, rows: Iterable[Numbered], topic: str = "in") -> Run:
        queue = self.task.queue_of(topic)
        assert queue is not None
        for row in rows:
            self.task.add(queue, (topic, 3, *row))

        def work() -> None:
            while self.task.process_one():
                self.task.punctuate_stream_time()

        return self._run(work)

    def _run(self, work: Callable[[], None]) -> Run:
        try:
            work()
            self.task.commit()
        except Exception as error:
            self.raised = (type(error), str(error))
        return self

    @property
    def seen(self) -> tuple[Any, ...]:
        return self.sent, self.asked, self.raised, dict(self.task.dropped), self.task.snapshot()


def _without_stack(record: tuple[Any, ...]) -> tuple[Any, ...]:
    *others, headers, partition = record
    return (*others, tuple(header for header in headers if "stacktrace" not in header[0]), partition)


def agreed(topology: Callable[[], Topology], rows: list[Numbered], **config: Any) -> Run:
    """The run of the compiled form, which all others have to agree with."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nodes, "_PATIENCE", 2)
        runs = {
            form: (Run(topology(), form, **config).all_at_once(rows), Run(topology(), form, **config).one_by_one(rows))
            for form in Compilation
        }
    expected = runs[Compilation.NEVER][0].seen
    for form, both in runs.items():
        for run in both:
            assert run.seen == expected, form
    return runs[Compilation.ALWAYS][0]


def rows(*values: bytes | None, key: bytes | None = b"k") -> list[Numbered]:
    return [(offset, 10 * offset, key, value, ()) for offset, value in enumerate(values)]


def fail_on_bad(value: str) -> str:
    if value == "bad":
        raise ValueError("bad value")
    return value.upper()


def chain() -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", CONSUMED).filter(lambda key, value: value != "no")
    stream.map_values(fail_on_bad, name="middle").select_key(lambda key, value: value[0]).to("out", PRODUCED)
    stream.to("all", PRODUCED)
    return builder.build()


# --- errors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [CONTINUE, FAIL])
def test_an_error_in_the_middle_of_a_chain_is_that_of_its_node_and_record(answer: Any) -> None:
    given: list[Numbered] = [*rows(b"one", b"no", b"bad", b"two")]
    given[2] = (2, 20, b"k", b"bad", (("h", b"1"),))
    run = agreed(chain, given, processing_exception_handler=answer)
    [(context, record, error, message)] = run.asked
    assert (context.node, context.task_id) == ("middle", "0_0")
    assert (context.topic, context.partition, context.offset, context.timestamp) == ("in", 3, 2, 20)
    assert (context.raw_key, context.raw_value, context.headers) == (b"k", b"bad", (("h", b"1"),))
    assert record == Record("k", "bad", 20, (("h", b"1"),))
    assert (error, message) == (ValueError, "bad value")
    if answer is CONTINUE:
        assert [(topic, value) for topic, _, value, *_ in run.sent] == [
            ("out", b"ONE"),
            ("all", b"one"),
            ("all", b"bad"),
            ("out", b"TWO"),
            ("all", b"two"),
        ]
        assert run.task.dropped == {"processing error": 1}
        return
    assert run.raised is not None
    assert run.raised[0] is ProcessingFailed
    assert "node middle" in run.raised[1]
    assert "test_compiled.py:" in run.raised[1]
    assert "topic in, partition 3, offset 2" in run.raised[1]


def test_only_the_node_that_fails_is_asked_about_not_those_above_it() -> None:
    run = agreed(chain, rows(b"bad"), processing_exception_handler=CONTINUE)
    assert [context.node for context, *_ in run.asked] == ["middle"]


def test_what_a_sink_cannot_serialize_is_the_sinks() -> None:
    def topology() -> Topology:
        builder = StreamsBuilder()
        builder.stream("in", CONSUMED).map_values(len).to("out", PRODUCED)
        return builder.build()

    run = agreed(topology, rows(b"one"))
    assert run.raised is not None
    assert run.raised[0] is ProductionFailed
    assert "Serdes.string() cannot serialize int" in run.raised[1]
    assert agreed(topology, rows(b"one"), production_exception_handler=LogAndContinue).task.dropped == {
        "serialization error": 1
    }


def test_a_record_that_cannot_be_read_goes_to_the_handler_before_the_one_ahead_of_it_is_processed() -> None:
    def topology() -> Topology:
        builder = StreamsBuilder()
        builder.stream("in", Consumed(TEXT, Serdes.json(Pair))).to("out", Produced(TEXT, Serdes.json(Pair)))
        return builder.build()

    run = agreed(
        topology,
        rows(b'{"a":1,"b":"x"}', b"{", b'{"a":"x","b":""}', None, b'{"a":2,"b":"y"}', b"["),
        deserialization_exception_handler=LogAndContinue,
        dead_letter_queue_topic="dead",
    )
    assert [(topic, value) for topic, _, value, *_ in run.sent] == [
        ("dead", b"{"),
        ("dead", b'{"a":"x","b":""}'),
        ("out", b'{"a":1,"b":"x"}'),
        ("out", None),
        ("dead", b"["),
        ("out", b'{"a":2,"b":"y"}'),
    ]
    messages = [dict(headers)["__streams.errors.message"] for topic, *_, headers, _ in run.sent if topic == "dead"]
    assert all(message.startswith(b"Serdes.json(Pair) cannot deserialize the data") for message in messages)


def test_text_that_is_not_utf8_is_read_as_java_reads_it() -> None:
    def topology() -> Topology:
        builder = StreamsBuilder()
        builder.stream("in", CONSUMED).to("out", PRODUCED)
        return builder.build()

    assert [record[2] for record in agreed(topology, rows(b"\xff", b"ok")).sent] == ["�".encode(), b"ok"]


def test_an_error_shows_the_line_of_the_compiled_code() -> None:
    error: BaseException | None = None
    run = Run(chain(), Compilation.ALWAYS)
    queue = run.task.queue_of("in")
    assert queue is not None
    with pytest.raises(ProcessingFailed) as raised:
        run.task.process_all(queue, "in", 0, rows(b"bad"))
    error = raised.value.__cause__
    assert error is not None and error.__traceback__ is not None
    code = error.__traceback__.tb_frame.f_code
    assert code.co_filename == "<headrace KSTREAM-SOURCE-0000000000>"
    assert "K" in linecache.getline(code.co_filename, error.__traceback__.tb_lineno)


# --- forms of topologies -------------------------------------------------------------------------------------------


def test_a_chain_deeper_than_python_nests_blocks() -> None:
    def topology() -> Topology:
        builder = StreamsBuilder()
        stream = builder.stream("in", CONSUMED)
        for number in range(40):
            stream = stream.flat_map_values(lambda value, number=number: [f"{value}{number % 10}"])
        stream.map_values(fail_on_bad).to("out", PRODUCED)
        return builder.build()

    assert agreed(topology, rows(b"x")).sent[0][2] == b"X" + b"0123456789" * 4


def test_branches_merges_and_nodes_with_several_children() -> None:
    def topology() -> Topology:
        builder = StreamsBuilder()
        stream = builder.stream("in", CONSUMED)
        branches = (
            stream.split("s-")
            .branch(lambda key, value: value.startswith("a"), "a")
            .branch(lambda key, value: value.startswith("b"), "b")
            .default_branch("rest")
        )
        branches["s-a"].merge(branches["s-rest"]).map_values(fail_on_bad).to("merged", PRODUCED)
        branches["s-b"].to("b", PRODUCED)
        stream.peek(lambda key, value: None).to("all", PRODUCED)
        return builder.build()

    run = agreed(topology, rows(b"a1", b"b1", b"c1", b"bad", b"a2"), processing_exception_handler=CONTINUE)
    assert [(topic, value) for topic, _, value, *_ in run.sent][:4] == [
        ("merged", b"A1"),
        ("all", b"a1"),
        ("b", b"b1"),
        ("all", b"b1"),
    ]


def test_headers_and_null_keys_take_their_way_too() -> None:
    def topology() -> Topology:
        builder = StreamsBuilder()
        builder.stream("in", CONSUMED).group_by_key().count("n").to_stream().to("out", Produced(TEXT, Serdes.long()))
        return builder.build()

    given: list[Numbered] = [
        (0, 5, b"k", b"x", (("h", b"1"),)),
        (1, 3, None, b"x", ()),
        (2, 4, b"k", None, ()),
        (3, 2, b"k", b"y", ()),
        (4, 9, b"l", b"y", (("h", None),)),
    ]
    run = agreed(topology, given)
    assert run.task.dropped == {"null key or value": 2}
    assert agreed(topology, given, cache_max_bytes=0).task.dropped == {"null key or value": 2}


class Ticking(Processor[str, str]):
    """Forwards its punctuations, and fails in some."""

    def init(self, ctx: Any) -> None:
        self.ctx = ctx
        ctx.schedule(timedelta(milliseconds=10), PunctuationType.STREAM_TIME, self.tick)

    def process(self, record: Record[str, str]) -> None:
        self.ctx.forward(record)

    def tick(self, timestamp: int) -> None:
        if timestamp == 30:
            raise ValueError("tick")
        self.ctx.forward(Record("tick", str(self.ctx.current_stream_time_ms()), timestamp))


def test_punctuations_follow_the_record_that_moved_the_time() -> None:
    def topology() -> Topology:
        builder = StreamsBuilder()
        builder.stream("in", CONSUMED).process(Ticking).map_values(fail_on_bad).to("out", PRODUCED)
        return builder.build()

    run = agreed(topology, rows(b"a", b"b", b"bad", b"c"), processing_exception_handler=CONTINUE)
    assert [value for _, _, value, *_ in run.sent] == [b"A", b"0", b"B", b"10", b"20", b"C"]
    assert [(context.node.rpartition("-")[0], record is None) for context, record, *_ in run.asked] == [
        ("KSTREAM-MAPVALUES", False),
        ("KSTREAM-PROCESSOR", True),
    ]


# --- repartitions --------------------------------------------------------------------------------------------------

PAIR = Serdes.json(Pair)
SPACED = b'{"b": "x", "a": 1, "c": 3}'
COMPACT = b'{"a":1,"b":"x"}'


def regrouped(change: Callable[[Any], Any], grouped_as: Any = PAIR) -> Topology:
    builder = StreamsBuilder()
    stream = change(builder.stream("in", Consumed(TEXT, PAIR)))
    stream.group_by(lambda key, pair: pair.b, Grouped(TEXT, grouped_as, name="by-b")).count("n")
    stream.to("out", Produced(TEXT, PAIR))
    return builder.build()


def mark(key: str, pair: Pair) -> None:
    pair.a += 1


def marked_under_another_name(stream: Any) -> Any:
    stream.map_values(lambda pair: pair).peek(mark)
    return stream


UNCHANGED: dict[str, Callable[[Any], Any]] = {
    "as it is": lambda stream: stream,
    "after functions that only read": lambda stream: stream.filter(lambda key, pair: pair.a > 0 and pair.b != ""),
}
CHANGED: dict[str, Callable[[Any], Any]] = {
    "by a mapper": lambda stream: stream.map_values(lambda pair: Pair(pair.a, pair.b)),
    "maybe, by a function that calls another": lambda stream: stream.peek(lambda key, pair: print(pair.a)),
    "in place": lambda stream: stream.peek(mark),
    "in place, under another name": marked_under_another_name,
}


def test_it_agrees_on_a_repartition_of_compact_json() -> None:
    run = agreed(lambda: regrouped(lambda stream: stream), rows(COMPACT, None, COMPACT))
    assert run.sent[0][:3] == ("app-by-b-repartition", b"x", COMPACT)


@pytest.mark.parametrize("change", UNCHANGED.values(), ids=UNCHANGED)
def test_a_repartition_passes_the_bytes_of_a_value_on_that_nobody_changed(change: Callable[[Any], Any]) -> None:
    run = Run(regrouped(change), Compilation.ALWAYS).all_at_once(rows(SPACED))
    assert [record[:3] for record in run.sent] == [("app-by-b-repartition", b"x", SPACED), ("out", b"k", COMPACT)]


@pytest.mark.parametrize("change", CHANGED.values(), ids=CHANGED)
def test_what_a_function_may_have_changed_is_serialized(change: Callable[[Any], Any]) -> None:
    sent = Run(regrouped(change), Compilation.ALWAYS).all_at_once(rows(SPACED)).sent
    assert sent == Run(regrouped(change), Compilation.NEVER).all_at_once(rows(SPACED)).sent
    assert SPACED not in [record[2] for record in sent]


def test_a_repartition_with_another_serde_serializes() -> None:
    topology = regrouped(lambda stream: stream, grouped_as=Serdes.json())
    run = Run(topology, Compilation.ALWAYS).all_at_once(rows(SPACED))
    assert [record[2] for record in run.sent] == [COMPACT, COMPACT]


# --- when and what is compiled -------------------------------------------------------------------------------------


def test_an_operator_that_cannot_be_put_in_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    def process(self: Any, key: Any, value: Any, context: Any) -> None:
        with open("/dev/null"):
            self.forward(key, self.mapper(key, value), context)

    monkeypatch.setattr(MapValuesOperator, "process", process)
    run = agreed(chain, rows(b"one", b"bad"), processing_exception_handler=CONTINUE)
    assert [context.node for context, *_ in run.asked] == ["middle"]


def test_a_task_made_again_takes_over_the_code_and_one_of_another_shape_does_not() -> None:
    builder = StreamsBuilder()
    counts = builder.stream("in", CONSUMED).group_by_key().count("n")
    counts.to_stream().to("out", Produced(TEXT, Serdes.long()))
    topology = builder.build()
    given = rows(b"x", b"y")
    first = Run(topology, Compilation.ALWAYS).all_at_once(given)
    again = Run(topology, Compilation.ALWAYS).all_at_once(given)
    uncached = Run(topology, Compilation.ALWAYS, cache_max_bytes=0).all_at_once(given)
    assert _code(first) is _code(again)
    assert _code(first) is not _code(uncached)
    assert first.sent == again.sent
    assert [record[2][-1] for record in first.sent] == [2, 2]
    assert [record[2][-1] for record in uncached.sent] == [1, 1, 2, 2]


def joined_within(time: timedelta) -> Topology:
    builder = StreamsBuilder()
    left, right = builder.stream("in", CONSUMED), builder.stream("other", CONSUMED)
    joined = left.join(right, lambda one, other: one + other, JoinWindows.of(time), StreamJoined(TEXT, TEXT, TEXT))
    joined.to("out", PRODUCED)
    return builder.build()


def test_a_parameter_that_is_assigned_under_a_condition_keeps_what_it_was_given() -> None:
    topology = joined_within(timedelta(milliseconds=10))
    for form in Compilation:
        run = Run(topology, form)
        others: list[Numbered] = [(0, 40, b"k", b"other", ())]
        run.task.process_merged(0, {"other": others, "in": [(0, 45, b"k", b"near", ()), (1, 8, b"k", b"far", ())]})
        assert [record[2] for record in run.sent if record[0] == "out"] == [b"nearother"]


def test_the_code_does_not_depend_on_what_stores_have_in_them() -> None:
    topology = joined_within(timedelta(seconds=5))
    stores: dict[str, MemoryStore] = {}

    def later(time: int) -> Run:
        run = Run(topology, Compilation.ALWAYS, stores=stores)
        given: dict[str, list[Numbered]] = {"in": [(0, time, b"k", b"a", ())], "other": [(0, time, b"k", b"b", ())]}
        run.task.process_merged(0, given)
        run.task.commit()
        return run

    first = later(1_000)
    assert _code(later(500_000)) is _code(first)
    assert _code(later(900_000)) is _code(first)


def _code(run: Run) -> Any:
    queue = run.task.queue_of("in")
    assert queue is not None
    return run.task._wiring.run(queue).__code__


def test_tasks_are_compiled_when_the_environment_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "never")
    assert Compilation.from_environment() is Compilation.NEVER
    monkeypatch.delenv(VARIABLE)
    assert Compilation.from_environment() is Compilation.WHEN_HOT
