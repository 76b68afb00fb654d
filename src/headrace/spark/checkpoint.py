"""The durable state of an application: what each committed batch changed, in files that are merged in tiers.

A batch is prepared before it is committed: its changes and a manifest that names all files of the state are written
under a token of its own. The transaction that commits the batch carries the token, so which manifest counts is
decided in Kafka alone. Files are merged in tiers: the cost of a batch follows what it changes, not the state.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from headrace.state.changes import merge_changes

_FANOUT = 8
_MANIFEST = "manifest-"
_KEPT_MANIFESTS = 3


class StateFile(msgspec.Struct, frozen=True):
    """A file with changes of tasks: those of one batch, or of many merged."""

    name: str
    tier: int


class Manifest(msgspec.Struct):
    """The state of an application after a batch."""

    batch: int
    token: str
    versions: dict[str, str]
    """By task, the version of its stores."""
    files: list[StateFile]
    """Oldest first."""


EMPTY = Manifest(-1, "", {}, [])


class StateFiles:
    """The state files of an application in a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def load(self, batch: int, token: str) -> Manifest | None:
        """The manifest of a committed batch."""
        path = self._directory / f"{_MANIFEST}{batch}-{token}.json"
        if not path.exists():
            return None
        return msgspec.json.decode(path.read_bytes(), type=Manifest)

    def prepare(
        self, last: Manifest, batch: int, changes: Mapping[str, bytes], versions: Mapping[str, str]
    ) -> Manifest:
        """Writes what a batch changes; it counts once the batch is committed with the manifest's token."""
        token = uuid.uuid4().hex[:12]
        files = list(last.files)
        if changes:
            name = f"changes-{batch}-{token}"
            self._write(name, msgspec.msgpack.encode(dict(changes)))
            files.append(StateFile(name, 0))
        manifest = Manifest(batch, token, {**last.versions, **versions}, self._merged(files, token))
        self._write(f"{_MANIFEST}{batch}-{token}.json", msgspec.json.encode(manifest))
        return manifest

    def read(self, manifest: Manifest, tasks: Iterable[str] | None = None) -> dict[str, bytes]:
        """The whole state of tasks, packed."""
        wanted = None if tasks is None else set(tasks)
        parts: dict[str, list[bytes]] = {}
        for file in manifest.files:
            for task, changes in self._content(file).items():
                if wanted is None or task in wanted:
                    parts.setdefault(task, []).append(changes)
        return {task: merge_changes(found, final=True) for task, found in parts.items()}

    def clean(self, manifest: Manifest) -> None:
        """Removes what neither this manifest nor the ones just before it name."""
        paths = sorted(self._directory.glob(f"{_MANIFEST}*.json"), key=lambda path: path.stat().st_mtime)
        kept = {*paths[-_KEPT_MANIFESTS:], self._directory / f"{_MANIFEST}{manifest.batch}-{manifest.token}.json"}
        named: set[str] = set()
        for path in paths:
            if path in kept:
                named.update(file.name for file in msgspec.json.decode(path.read_bytes(), type=Manifest).files)
            else:
                path.unlink(missing_ok=True)
        for path in self._directory.iterdir():
            if not path.name.startswith(_MANIFEST) and path.name not in named:
                path.unlink(missing_ok=True)

    def _merged(self, files: list[StateFile], token: str) -> list[StateFile]:
        tier = 0
        while True:
            run = [file for file in files if file.tier == tier]
            if len(run) < _FANOUT:
                return files
            # The last files of a tier are the youngest of all but those of lower tiers, which are merged already.
            first = files.index(run[0])
            parts: dict[str, list[bytes]] = {}
            for file in files[first:]:
                for task, changes in self._content(file).items():
                    parts.setdefault(task, []).append(changes)
            merged = {task: merge_changes(found, final=first == 0) for task, found in parts.items()}
            name = f"merged-{tier + 1}-{token}"
            self._write(name, msgspec.msgpack.encode(merged))
            files = [*files[:first], StateFile(name, tier + 1)]
            tier += 1

    def _content(self, file: StateFile) -> dict[str, bytes]:
        return msgspec.msgpack.decode((self._directory / file.name).read_bytes(), type=dict[str, bytes])

    def _write(self, name: str, content: bytes) -> None:
        """Writes a file whole or not at all, and durably."""
        scratch = self._directory / f".{name}.tmp"
        with scratch.open("wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        scratch.replace(self._directory / name)
