"""A working copy is at the version that was committed, or it is rebuilt."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from headrace.spark.commit_record import NOTHING
from headrace.spark.working_copy import Readers, StaleCopyError, WorkingCopy
from headrace.state.changes import Changes, StoreChanges, pack_changes


def pack(**entries: str | None) -> bytes:
    changed = {key.encode(): None if value is None else value.encode() for key, value in entries.items()}
    return pack_changes({"store": StoreChanges(changed)})


def from_changelog(stores: Readers) -> Iterator[Changes]:
    yield {"store": StoreChanges({b"a": b"logged"})}
    assert stores("store").get(b"a") == b"logged"
    yield {"store": StoreChanges({b"b": b"logged", b"a": b"logged later"})}


def never(stores: Readers) -> Iterator[Changes]:
    raise AssertionError("nothing is to be rebuilt")


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[WorkingCopy]:
    made = WorkingCopy(tmp_path / "copy", ("store",))
    yield made
    made.close()


def content(copy: WorkingCopy) -> dict[bytes, bytes]:
    with copy.read({}) as overlays:
        return dict(overlays["store"].range(None, None))


def test_a_task_that_never_ran_has_nothing(copy: WorkingCopy) -> None:
    assert not copy.bring_to(NOTHING, never)
    assert content(copy) == {}


def test_what_is_held_counts_when_it_was_committed(copy: WorkingCopy) -> None:
    copy.bring_to(NOTHING, never)
    copy.hold("v1", NOTHING, pack(a="1", b="1"))
    assert content(copy) == {}
    assert not copy.bring_to("v1", never)
    copy.hold("v2", "v1", pack(a=None))
    assert not copy.bring_to("v2", never)
    assert content(copy) == {b"b": b"1"}


def test_what_another_version_of_headrace_holds_is_read_from_the_changelogs(copy: WorkingCopy) -> None:
    copy.bring_to(NOTHING, never)
    copy.hold("v1", NOTHING, msgspec.msgpack.encode([("store", [b"a"], [b"1"], {})]))
    assert copy.bring_to("v1", from_changelog)
    assert content(copy) == {b"a": b"logged later", b"b": b"logged"}


def test_a_copy_that_was_read_does_not_keep_readers_of_lmdb(copy: WorkingCopy) -> None:
    copy.bring_to(NOTHING, never)
    overlays = []
    for _ in range(200):
        with copy.read({}) as read:
            overlays.append(read["store"])
            assert read["store"].get(b"a") is None
    assert copy._stores.environment.info()["num_readers"] <= 2


def test_what_a_failed_attempt_holds_does_not_count(copy: WorkingCopy) -> None:
    copy.bring_to(NOTHING, never)
    copy.hold("v1", NOTHING, pack(a="1"))
    copy.bring_to("v1", never)
    copy.hold("lost", "v1", pack(a="lost"))
    copy.bring_to("v1", never)
    copy.hold("v2", "v1", pack(c="2"))
    copy.bring_to("v2", never)
    assert content(copy) == {b"a": b"1", b"c": b"2"}


def test_an_attempt_that_nobody_waits_for_does_not_replace_what_the_next_one_holds(copy: WorkingCopy) -> None:
    copy.bring_to(NOTHING, never)
    copy.hold("second", NOTHING, pack(a="second"))
    copy.hold("first", NOTHING, pack(a="first"))
    copy.bring_to("second", never)
    assert content(copy) == {b"a": b"second"}
    copy._version = NOTHING  # as the first attempt sees it
    with pytest.raises(StaleCopyError, match="no longer at nothing"):
        copy.hold("first", NOTHING, pack(a="first"))


def test_a_copy_of_another_version_is_rebuilt(copy: WorkingCopy) -> None:
    copy.bring_to(NOTHING, never)
    copy.hold("v1", NOTHING, pack(z="old"))
    copy.bring_to("v1", never)
    assert copy.bring_to("v7", from_changelog)
    assert content(copy) == {b"a": b"logged later", b"b": b"logged"}
    assert not copy.bring_to("v7", never)


def test_a_copy_that_is_a_little_behind_catches_up(copy: WorkingCopy) -> None:
    copy.bring_to(NOTHING, never)
    copy.hold("v1", NOTHING, pack(z="kept"))
    copy.bring_to("v1", never)
    copy.hold("lost", "v1", pack(z="lost"))
    assert copy.bring_to("v3", never, {"v1": from_changelog}.get)
    assert content(copy) == {b"a": b"logged later", b"b": b"logged", b"z": b"kept"}
    assert copy.bring_to("v9", from_changelog, {"v1": never}.get)
    assert content(copy) == {b"a": b"logged later", b"b": b"logged"}


def test_a_rebuild_that_does_not_come_to_its_end_leaves_the_copy_as_it_was(copy: WorkingCopy) -> None:
    copy.bring_to(NOTHING, never)
    copy.hold("v1", NOTHING, pack(z="old"))
    copy.bring_to("v1", never)

    def broken(stores: Readers) -> Iterator[Changes]:
        yield {"store": StoreChanges({b"a": b"half"})}
        raise OSError("killed")

    with pytest.raises(OSError, match="killed"):
        copy.bring_to("v7", broken)
    copy.bring_to("v1", never)
    assert content(copy) == {b"z": b"old"}


def test_a_copy_that_another_attempt_has_moved_is_not_read(copy: WorkingCopy) -> None:
    copy.bring_to("v2", from_changelog)
    copy.bring_to(NOTHING, never)
    copy._version = "v2"  # as the attempt that was here first sees it
    with pytest.raises(StaleCopyError, match="no longer at v2"), copy.read({}):
        pass


def test_facts_come_with_the_commit_and_not_from_the_copy(copy: WorkingCopy) -> None:
    copy.bring_to(NOTHING, never)
    with copy.read({"store": {"number": b"7"}}) as overlays:
        assert overlays["store"].meta_get("number") == b"7"
        overlays["store"].meta_put("number", b"8")
        assert overlays["store"].facts == {"number": b"8"}
    with copy.read({}) as overlays:
        assert overlays["store"].meta_get("number") is None
