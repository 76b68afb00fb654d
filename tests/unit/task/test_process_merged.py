"""Records of several topics processed in one go: the same as adding them all and processing one after the other."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace import Consumed, LogAndContinue, Serdes, StreamsBuilder, StreamsConfig
from headrace.errors import StreamsError
from headrace.state.memory import MemoryStore
from headrace.task.record_queue import Numbered
from headrace.task.task import Task

TOPICS = ("a", "b", "c")
NUMBERS = st.sampled_from([b"\x00\x00\x00\x01", b"\x00\x00\x00\x02", b"unreadable", None])
records = st.lists(st.tuples(st.integers(0, 5), NUMBERS), max_size=8)


@settings(deadline=None)
@given(st.fixed_dictionaries(dict.fromkeys(TOPICS, records)), st.integers(1, 3))
def test_merged_is_one_after_the_other(given_records: dict[str, list[tuple[int, Any]]], topics: int) -> None:
    rows: dict[str, list[Numbered]] = {
        topic: [(offset, time, b"k", value, ()) for offset, (time, value) in enumerate(given_records[topic])]
        for topic in TOPICS[:topics]
    }
    merged, sent = _task()
    merged.process_merged(0, {topic: iter(each) for topic, each in rows.items()})
    merged.commit()
    one_by_one, sent_one_by_one = _task()
    for topic, each in rows.items():
        queue = one_by_one.queue_of(topic)
        assert queue is not None
        # All that is there is in the queue before its first record is looked for, as after a poll of Kafka Streams.
        queue.waiting.extend((topic, 0, *row) for row in each[:-1])
        for row in each[-1:]:
            one_by_one.add(queue, (topic, 0, *row))
    while one_by_one.process_one():
        one_by_one.punctuate_stream_time()
    one_by_one.commit()
    assert sent == sent_one_by_one
    assert merged.snapshot() == one_by_one.snapshot()
    assert merged.dropped == one_by_one.dropped
    assert merged.buffered == 0


def test_a_topic_that_the_task_does_not_read_is_an_error() -> None:
    task, _ = _task()
    with pytest.raises(StreamsError, match="does not read topic other"):
        task.process_merged(0, {"other": []})


def _task() -> tuple[Task, list[tuple[Any, ...]]]:
    builder = StreamsBuilder()
    seen: list[tuple[Any, ...]] = []
    for topic in TOPICS:
        stream = builder.stream(topic, Consumed(Serdes.string(), Serdes.integer()))
        stream.foreach(lambda key, value, topic=topic: seen.append((topic, value)))
        if topic != "c":
            stream.map_values(lambda value: 6 // (value - 1)).group_by_key().count(f"n-{topic}")
    config = StreamsConfig(
        application_id="app",
        deserialization_exception_handler=LogAndContinue,
        processing_exception_handler=LogAndContinue,
    )
    task = Task(
        builder.build(),
        config,
        application_id="app",
        ordered=lambda spec: MemoryStore(),
        send=lambda *record: seen.append(record),
        clock=lambda: 0,
    )
    return task, seen
