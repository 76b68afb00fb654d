"""A working copy that is behind catches up with the changes of the last batches."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.spark.recent_changes import RecentChanges, Step, way
from headrace.spark.working_copy import NOTHING, StaleCopyError, WorkingCopy
from headrace.state.changes import StoreChanges, pack_changes


def pack(**entries: str) -> bytes:
    return pack_changes({"store": StoreChanges({key.encode(): value.encode() for key, value in entries.items()})})


def batch(task: str, before: str, version: str, changes: bytes) -> Any:
    """A batch's changes, as an executor has them."""
    return SimpleNamespace(value={task: Step(before, version, changes)})


BATCHES = [
    batch("0_0", NOTHING, "v1", pack(a="1", b="1")),
    batch("1_0", NOTHING, "w1", pack(a="x")),
    batch("0_0", "v1", "v2", pack(a="2")),
    batch("0_0", "v2", "v3", pack(c="3")),
]


def steps(start: str, end: str) -> Sequence[bytes] | None:
    return way(BATCHES, "0_0", start, end)


def content(copy: WorkingCopy) -> dict[bytes, bytes]:
    with copy.read() as overlays:
        return dict(overlays["store"].range(None, None))


def test_from_nothing_from_the_middle_and_to_the_middle() -> None:
    assert steps(NOTHING, "v3") == [pack(a="1", b="1"), pack(a="2"), pack(c="3")]
    assert steps("v2", "v3") == [pack(c="3")]
    assert steps("v1", "v2") == [pack(a="2")]


def test_where_the_changes_do_not_lead() -> None:
    assert steps("v0", "v3") is None
    assert steps("v3", "v1") is None
    assert steps("v1", "v4") is None


def test_a_copy_on_another_executor_catches_up(tmp_path: Path) -> None:
    copy = WorkingCopy(tmp_path / "copy", ("store",))
    copy.bring_to("v1", None, steps)
    copy.bring_to("v3", None, steps)
    assert content(copy) == {b"a": b"2", b"b": b"1", b"c": b"3"}
    with pytest.raises(StaleCopyError):
        copy.bring_to("v4", None, steps)
    copy.close()


def test_what_a_failed_attempt_holds_is_not_in_the_way(tmp_path: Path) -> None:
    copy = WorkingCopy(tmp_path / "copy", ("store",))
    copy.bring_to("v1", None, steps)
    copy.hold("lost", "v1", pack(a="lost"))
    copy.bring_to("v2", None, steps)
    assert content(copy) == {b"a": b"2", b"b": b"1"}
    copy.close()


def test_a_copy_that_another_attempt_has_moved_is_not_read(tmp_path: Path) -> None:
    copy = WorkingCopy(tmp_path / "copy", ("store",))
    copy.bring_to("v2", None, steps)
    copy.bring_to(NOTHING, None, steps)
    copy._version = "v2"  # as the attempt that was here first sees it
    with pytest.raises(StaleCopyError, match="went from v2 to nothing"), copy.read():
        pass
    copy.close()


class Context:
    """Spark's context, as far as it sends things to executors."""

    def __init__(self, master: str) -> None:
        self.master = master
        self.destroyed: list[Any] = []

    def broadcast(self, value: Any) -> Any:
        return SimpleNamespace(value=value, destroy=lambda: self.destroyed.append(value))


def sent(context: Any, count: int, size: int, limit: int) -> RecentChanges:
    recent = RecentChanges(context, limit)
    for number in range(count):
        recent.add({"0_0": f"v{number}"}, {"0_0": f"v{number + 1}"}, {"0_0": b"x" * size})
    return recent


@pytest.mark.parametrize(("size", "kept"), [(1, 16), (400, 2), (2000, 0)])
def test_only_so_much_is_kept_at_hand(size: int, kept: int) -> None:
    context = Context("spark://host:7077")
    recent = sent(context, 20, size, limit=1000)
    assert [batch.value["0_0"].version for batch in recent.batches] == [f"v{n}" for n in range(21 - kept, 21)]
    assert len(context.destroyed) == 20 - kept


def test_on_one_machine_nothing_is_sent() -> None:
    assert sent(Context("local[2]"), 3, 1, limit=1000).batches == ()
    assert len(sent(Context("local-cluster[2,1,512]"), 3, 1, limit=1000).batches) == 3
