"""Records of several topics are merged by time, as far as it is certain that nothing earlier comes."""

from __future__ import annotations

import pytest

from headrace import Consumed, Serdes, StreamsBuilder, StreamsConfig
from headrace.errors import StreamsError
from headrace.record import NO_HEADERS
from headrace.state.memory import MemoryStore
from headrace.task.handlers import LogAndContinue
from headrace.task.record_queue import Numbered
from headrace.task.task import Task

TEXT, LONG = Serdes.string(), Serdes.long()


def task_of(*topics: str) -> tuple[Task, list[str]]:
    """A task that notes what it processes, of topics that one sub-topology reads."""
    seen: list[str] = []
    builder = StreamsBuilder()
    first, *others = (
        builder.stream(topic, Consumed(key=TEXT, value=LONG if topic == "numbers" else TEXT)) for topic in topics
    )
    for other in others:
        first = first.merge(other)
    first.foreach(lambda key, value: seen.append(value))
    config = StreamsConfig(application_id="app", deserialization_exception_handler=LogAndContinue)
    task = Task(
        builder.build(),
        config,
        application_id="app",
        ordered=lambda spec: MemoryStore(),
        send=lambda *_: None,
        clock=lambda: 0,
    )
    return task, seen


def rows(topic: str, *times: int, first: int = 0) -> list[Numbered]:
    return [(first + number, time, b"k", f"{topic}{time}".encode(), NO_HEADERS) for number, time in enumerate(times)]


def test_all_is_processed_where_nothing_is_unread() -> None:
    task, seen = task_of("a", "b")
    assert task.process_merged(0, {"a": rows("a", 1, 3, 5), "b": rows("b", 2, 4, 9)}) == {}
    assert seen == ["a1", "b2", "a3", "b4", "a5", "b9"]


def test_others_wait_for_a_topic_that_goes_on() -> None:
    task, seen = task_of("a", "b")
    left = task.process_merged(0, {"a": rows("a", 1, 3), "b": rows("b", 2, 4, 9, first=70)}, {"a"})
    assert seen == ["a1", "b2", "a3"]
    assert left == {"b": 71}


def test_three_topics() -> None:
    task, seen = task_of("a", "b", "c")
    given = {"a": rows("a", 5, 6), "b": rows("b", 1, 2), "c": rows("c", 3, 7)}
    assert task.process_merged(0, given, {"b"}) == {"a": 0, "c": 0}
    assert seen == ["b1", "b2"]


def test_a_topic_with_nothing_yet_holds_up_all() -> None:
    task, seen = task_of("a", "b")
    assert task.process_merged(0, {"a": rows("a", 1), "b": []}, {"b"}) == {"a": 0}
    assert seen == []


def test_a_record_that_cannot_be_read_is_reported_once() -> None:
    task, seen = task_of("a", "numbers")
    unreadable: Numbered = (5, 9, b"k", b"no number", NO_HEADERS)
    assert task.process_merged(0, {"a": rows("a", 1, 3), "numbers": [unreadable]}, {"a"}) == {}
    assert seen == ["a1", "a3"]
    assert task.dropped == {"deserialization error": 1}


def test_a_topic_that_nobody_reads() -> None:
    task, _ = task_of("a", "b")
    with pytest.raises(StreamsError, match="does not read topic c"):
        task.process_merged(0, {"c": []})
