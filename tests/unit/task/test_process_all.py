"""Records of one partition processed in one go: the same as one after the other."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace import Consumed, LogAndContinue, Produced, Serdes, StreamsBuilder, StreamsConfig
from headrace.record import Headers
from headrace.state.memory import MemoryStore
from headrace.task.task import Task

records = st.lists(
    st.tuples(
        st.integers(0, 9),
        st.sampled_from([b"a", b"b", None]),
        st.sampled_from([b"\x00\x00\x00\x01", b"\x00\x00\x00\x02", b"unreadable", None]),
    ),
    max_size=8,
)


@settings(deadline=None)  # a task is compiled for each example
@given(records)
def test_all_at_once_is_one_after_the_other(given_records: list[tuple[int, bytes | None, bytes | None]]) -> None:
    rows = [(offset, time, key, value, ()) for offset, (time, key, value) in enumerate(given_records)]
    at_once, sent_at_once = _task()
    queue = at_once.queue_of("in")
    assert queue is not None
    at_once.process_all(queue, "in", 0, rows)
    at_once.commit()
    one_by_one, sent_one_by_one = _task()
    queue = one_by_one.queue_of("in")
    assert queue is not None
    for row in rows:
        one_by_one.add(queue, ("in", 0, *row))
    while one_by_one.process_one():
        one_by_one.punctuate_stream_time()
    one_by_one.commit()
    assert sent_at_once == sent_one_by_one
    assert at_once.snapshot() == one_by_one.snapshot()
    assert at_once.dropped == one_by_one.dropped


def _task() -> tuple[Task, list[tuple[Any, ...]]]:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(Serdes.string(), Serdes.integer()))
    stream.map_values(lambda value: 6 // (value - 1)).to("out", Produced(Serdes.string(), Serdes.integer()))
    stream.group_by_key().count("n")
    config = StreamsConfig(
        application_id="app",
        deserialization_exception_handler=LogAndContinue,
        processing_exception_handler=LogAndContinue,
        dead_letter_queue_topic="dead",
    )
    sent: list[tuple[Any, ...]] = []

    def send(topic: str, key: Any, value: Any, timestamp: int, headers: Headers, partition: int | None) -> None:
        told = tuple(header for header in headers if "stacktrace" not in header[0])
        sent.append((topic, key, value, timestamp, told, partition))

    task = Task(
        builder.build(),
        config,
        application_id="app",
        ordered=lambda spec: MemoryStore(),
        send=send,
        clock=lambda: 0,
    )
    return task, sent
