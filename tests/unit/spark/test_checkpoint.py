"""State files in a local directory: what counts, what is merged, what is removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import StreamsError
from headrace.spark.checkpoint import EMPTY, Manifest, StateFiles
from headrace.spark.file_systems import LocalDirectory
from headrace.state.changes import StoreChanges, pack_changes, unpack_changes


def pack(**entries: str | None) -> bytes:
    changed = {key.encode(): None if value is None else value.encode() for key, value in entries.items()}
    return pack_changes({"store": StoreChanges(changed)})


def entries(state: bytes) -> dict[bytes, bytes | None]:
    return unpack_changes(state)["store"].entries


def batches(files: StateFiles, count: int) -> Manifest:
    """So many batches, each committed: every one changes a key of its own and the key `last`."""
    manifest = EMPTY
    for number in range(count):
        changes = {"0_0": pack(**{f"k{number}": "v", "last": str(number)})}
        manifest = files.prepare(manifest, number, changes, {"0_0": f"version-{number}"})
        files.clean(manifest)
    return manifest


def test_the_state_is_all_changes_one_after_the_other(tmp_path: Path) -> None:
    files = StateFiles(LocalDirectory(tmp_path))
    manifest = batches(files, 20)
    state = entries(files.read(manifest)["0_0"])
    assert state == {**{f"k{number}".encode(): b"v" for number in range(20)}, b"last": b"19"}
    assert manifest.versions == {"0_0": "version-19"}


def test_files_are_merged_and_old_ones_removed(tmp_path: Path) -> None:
    batches(StateFiles(LocalDirectory(tmp_path)), 200)
    assert len(list(tmp_path.iterdir())) < 30


def test_only_the_tasks_that_are_asked_for_are_read(tmp_path: Path) -> None:
    files = StateFiles(LocalDirectory(tmp_path))
    manifest = files.prepare(EMPTY, 0, {"0_0": pack(a="1"), "0_1": pack(b="2")}, {})
    assert list(files.read(manifest, ["0_1"])) == ["0_1"]
    with pytest.raises(StreamsError, match="The state of task 0_2 is missing"):
        files.read(manifest, ["0_1", "0_2"])


def test_what_was_prepared_and_never_committed_goes(tmp_path: Path) -> None:
    first = StateFiles(LocalDirectory(tmp_path))
    manifest = batches(first, 3)
    lost = first.prepare(manifest, 3, {"0_0": pack(lost="x")}, {})
    # Killed; the next process takes up what was committed.
    second = StateFiles(LocalDirectory(tmp_path))
    loaded = second.load(manifest.batch, manifest.token)
    assert loaded == manifest
    again = second.prepare(loaded, 3, {"0_0": pack(found="x")}, {})
    second.clean(again)
    assert second.load(3, lost.token) is None
    assert b"lost" not in entries(second.read(again)["0_0"])
    assert entries(second.read(again)["0_0"])[b"found"] == b"x"


def test_a_state_file_that_is_gone_is_named(tmp_path: Path) -> None:
    files = StateFiles(LocalDirectory(tmp_path))
    manifest = files.prepare(EMPTY, 0, {"0_0": pack(a="1")}, {})
    (tmp_path / manifest.files[0].name).unlink()
    with pytest.raises(StreamsError, match=f"{manifest.files[0].name} is missing in {tmp_path}"):
        files.read(manifest)
