"""The durable state of an application: what each committed batch changed, in files that are merged in tiers.

A batch is prepared before it is committed: its changes and a manifest that names all files of the state are written
under a token of its own. The transaction that commits the batch carries the token, so which manifest counts is
decided in Kafka alone. Files are merged in tiers: the cost of a batch follows what it changes, not the state.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Iterable, Mapping
from types import MappingProxyType

import msgspec

from headrace.errors import StreamsError
from headrace.spark.file_systems import FileDirectory
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
    global_ends: dict[str, int] = {}
    """By partition of a global table's topic, how far it was read."""


EMPTY = Manifest(-1, "", {}, [])


class StateFiles:
    """The state files of an application in a directory."""

    def __init__(self, directory: FileDirectory) -> None:
        self._directory = directory
        self._present: set[str] | None = None
        """The files that are there; None until they were listed."""
        self._recent: deque[Manifest] = deque(maxlen=_KEPT_MANIFESTS)

    @property
    def location(self) -> str:
        """Where the files are."""
        return self._directory.location

    def load(self, batch: int, token: str) -> Manifest | None:
        """The manifest of a committed batch."""
        content = self._directory.read(_manifest_name(batch, token))
        if content is None:
            return None
        manifest = msgspec.json.decode(content, type=Manifest)
        self._recent.append(manifest)
        return manifest

    def prepare(
        self,
        last: Manifest,
        batch: int,
        changes: Mapping[str, bytes],
        versions: Mapping[str, str],
        global_ends: Mapping[str, int] = MappingProxyType({}),
    ) -> Manifest:
        """Writes what a batch changes; it counts once the batch is committed with the manifest's token."""
        token = uuid.uuid4().hex[:12]
        files = list(last.files)
        if changes:
            name = f"changes-{batch}-{token}"
            self._write(name, msgspec.msgpack.encode(dict(changes)))
            files.append(StateFile(name, 0))
        files = self._merged(files, token)
        ends = {**last.global_ends, **global_ends}
        manifest = Manifest(batch, token, {**last.versions, **versions}, files, ends)
        self._write(_manifest_name(batch, token), msgspec.json.encode(manifest))
        return manifest

    def read(self, manifest: Manifest, tasks: Iterable[str] | None = None) -> dict[str, bytes]:
        """The whole state of tasks, packed."""
        wanted = None if tasks is None else set(tasks)
        parts: dict[str, list[bytes]] = {}
        for file in manifest.files:
            for task, changes in self._content(file).items():
                if wanted is None or task in wanted:
                    parts.setdefault(task, []).append(changes)
        if wanted is not None and wanted - parts.keys():
            raise StreamsError(
                f"The state of task {min(wanted - parts.keys())} is missing in {self._directory.location}. "
                "Bring it back, or take the application back to the beginning with: headrace reset"
            )
        return {task: merge_changes(found, final=True) for task, found in parts.items()}

    def clean(self, manifest: Manifest) -> None:
        """Removes what neither this manifest nor the ones just before it name."""
        self._recent.append(manifest)
        if self._present is None:
            self._present = set(self._directory.names())
        kept = {_manifest_name(known.batch, known.token) for known in self._recent}
        kept.update(file.name for known in self._recent for file in known.files)
        for name in self._present - kept:
            self._directory.remove(name)
        self._present &= kept

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
        content = self._directory.read(file.name)
        if content is None:
            raise StreamsError(
                f"The state file {file.name} is missing in {self._directory.location}. Bring it back, "
                "or take the application back to the beginning with: headrace reset"
            )
        return msgspec.msgpack.decode(content, type=dict[str, bytes])

    def _write(self, name: str, content: bytes) -> None:
        self._directory.write(name, content)
        if self._present is not None:
            self._present.add(name)


def _manifest_name(batch: int, token: str) -> str:
    return f"{_MANIFEST}{batch}-{token}.json"
