"""The versions of one key whose validity ended within one segment, the latest first."""

from __future__ import annotations

import struct
from typing import NamedTuple

from headrace.serdes.forms.sized import pack_sized, unpack_sized

_TIME = struct.Struct(">q")


class Version(NamedTuple):
    """A version found: its place in the list, its value and when it is valid."""

    place: int
    value: bytes | None
    valid_from: int
    valid_to: int


class VersionList:
    """Times and values, without gaps: each version is valid until the next one begins, the latest until
    `next_timestamp`. A single version that ends when it begins only remembers a deletion at that time.
    """

    __slots__ = ("entries", "next_timestamp")

    def __init__(self, next_timestamp: int, entries: list[tuple[int, bytes | None]]) -> None:
        self.next_timestamp = next_timestamp
        self.entries = entries

    @property
    def min_timestamp(self) -> int:
        """When the earliest version begins."""
        return self.entries[-1][0]

    def find(self, timestamp: int) -> Version:
        """The version that is valid at that time, which lies within those of the list."""
        valid_to = self.next_timestamp
        for index, (valid_from, value) in enumerate(self.entries):
            if valid_from <= timestamp:
                return Version(index, value, valid_from, valid_to)
            valid_to = valid_from
        raise ValueError(f"No version at {timestamp}: the earliest begins at {self.min_timestamp}")

    def insert(self, index: int, timestamp: int, value: bytes | None) -> None:
        """Puts a version at that place."""
        self.entries.insert(index, (timestamp, value))

    def replace(self, index: int, timestamp: int, value: bytes | None) -> None:
        """Puts a version in the place of another."""
        self.entries[index] = (timestamp, value)

    def append(self, valid_from: int, valid_to: int, value: bytes | None) -> None:
        """Adds the latest version; a gap before it is a deletion."""
        if self._only_remembers_deletion():
            self.entries.clear()
        if self.next_timestamp != valid_from:
            self.entries.insert(0, (self.next_timestamp, None))
        self.entries.insert(0, (valid_from, value))
        self.next_timestamp = valid_to

    def prepend(self, timestamp: int, value: bytes | None) -> None:
        """Adds the earliest version."""
        if self._only_remembers_deletion():
            self.entries.clear()
        self.entries.append((timestamp, value))

    def _only_remembers_deletion(self) -> bool:
        return self.min_timestamp == self.next_timestamp


def pack_versions(versions: VersionList) -> bytes:
    """The next timestamp, then each version: its time in 8 bytes, its value with its length."""
    parts = [_TIME.pack(versions.next_timestamp)]
    for timestamp, value in versions.entries:
        parts += (_TIME.pack(timestamp), pack_sized(value))
    return b"".join(parts)


def unpack_versions(data: bytes) -> VersionList:
    """The versions."""
    next_timestamp: int = _TIME.unpack_from(data)[0]
    entries: list[tuple[int, bytes | None]] = []
    position = 8
    while position < len(data):
        timestamp: int = _TIME.unpack_from(data, position)[0]
        value, position = unpack_sized(data, position + 8)
        entries.append((timestamp, value))
    return VersionList(next_timestamp, entries)
