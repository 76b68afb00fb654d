"""Versioned stores: the latest value of a key, and the earlier ones for as long as history is retained.

Earlier values are kept with the time until which they were valid, in segments by that time, several values
of a key in one entry (`version_list`).
"""

from __future__ import annotations

from typing import Any

from headrace.duration import MAX_MILLIS
from headrace.record import NO_HEADERS, Headers, RecordContext, ValueAndTimestamp
from headrace.serdes.forms.timestamped import pack_timestamped, timestamp_of, unpack_timestamped
from headrace.state.environment import StoreEnvironment
from headrace.state.metadata import STREAM_TIME, load_number, save_number
from headrace.state.port import BackendStore
from headrace.state.put_result import LATEST, NOT_PUT
from headrace.state.segments import Segments
from headrace.state.store import Store
from headrace.state.version_list import VersionList, pack_versions, unpack_versions
from headrace.topology.stores import StoreSpec

_LATEST_VALUES = b"\x00"


class VersionedStore(Store):
    """Values by key and time."""

    __slots__ = ("_retention", "_saved_stream_time", "_segments", "_stream_time")

    is_versioned = True

    def __init__(self, spec: StoreSpec, ordered: BackendStore, environment: StoreEnvironment) -> None:
        super().__init__(spec, ordered, StoreEnvironment(environment.log, None, environment.dropped))
        self._retention = spec.retention_ms
        self._stream_time = self._saved_stream_time = load_number(ordered, STREAM_TIME, -1)
        self._segments = Segments(ordered, self._retention, _interval(self._retention), second_area=True)

    def get(self, key: Any) -> ValueAndTimestamp | None:
        """The latest value of the key, and since when it is."""
        packed = self._ordered.get(_LATEST_VALUES + self._key(key))
        if packed is None:
            return None
        value, timestamp = unpack_timestamped(packed)
        return ValueAndTimestamp(self._deserialize_value(value), timestamp)

    def get_as_of(self, key: Any, timestamp: int) -> ValueAndTimestamp | None:
        """The value the key had at that time, and since when it had it; None where that is not retained."""
        found = self._find(self._key(key), timestamp)
        if found is None:
            return None
        return ValueAndTimestamp(self._deserialize_value(found[0]), found[1])

    def put(self, key: Any, value: Any, timestamp: int, context: RecordContext) -> int:
        """Sets the value from that time on; None deletes it. Answers until when it is valid, `LATEST` or `NOT_PUT`."""
        packed_key, packed = self._key(key), self._serialize_value(value)
        valid_to = self._put(packed_key, packed, timestamp, context)
        self._log_version(packed_key, packed, timestamp)
        return valid_to

    def delete(self, key: Any, timestamp: int, context: RecordContext) -> ValueAndTimestamp | None:
        """Deletes the value from that time on; answers the one it had then."""
        packed_key = self._key(key)
        found = None if self._is_too_old(timestamp) else self._find(packed_key, timestamp)
        self._put(packed_key, None, timestamp, context)
        self._log_version(packed_key, None, timestamp)
        return None if found is None else ValueAndTimestamp(self._deserialize_value(found[0]), found[1])

    def restore(self, key: bytes, value: bytes | None, timestamp: int, headers: Headers) -> None:
        """Takes over a record of the changelog, unless it is too old by now."""
        self._put(key, value, timestamp, RecordContext(timestamp))

    def save_facts(self) -> None:
        """Keeps the stream time."""
        if self._stream_time != self._saved_stream_time:
            save_number(self._ordered, STREAM_TIME, self._stream_time)
            self._saved_stream_time = self._stream_time

    def approximate_count(self) -> int:
        """How many entries there are, of latest and of earlier values."""
        return len(self._ordered)

    def _is_too_old(self, timestamp: int) -> bool:
        return timestamp < self._stream_time - self._retention

    def _log_version(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        if self._log is not None:
            self._log(key, value, timestamp, NO_HEADERS)

    def _find(self, key: bytes, timestamp: int) -> tuple[bytes, int] | None:
        latest = self._ordered.get(_LATEST_VALUES + key)
        if latest is not None and timestamp_of(latest) <= timestamp:
            return unpack_timestamped(latest)
        if self._is_too_old(timestamp):
            return None
        for segment in self._segments.between(timestamp, MAX_MILLIS, reverse=True):
            versions = self._load(segment, key)
            if versions is None:
                continue
            if versions.next_timestamp <= timestamp:
                return None
            if versions.min_timestamp <= timestamp:
                found = versions.find(timestamp)
                return None if found.value is None else (found.value, found.valid_from)
        return None

    def _put(self, key: bytes, value: bytes | None, timestamp: int, context: RecordContext) -> int:
        if self._is_too_old(timestamp):
            if self._dropped is not None:
                self._dropped(context, f"store {self.name}: older than the history that is retained")
            return NOT_PUT
        self._stream_time = max(self._stream_time, timestamp)
        self._segments.expire(self._stream_time)
        latest = self._ordered.get(_LATEST_VALUES + key)
        if latest is not None and timestamp >= timestamp_of(latest):
            self._replace_latest(key, value, timestamp, latest)
            return LATEST
        return self._put_among_earlier(key, value, timestamp, None if latest is None else timestamp_of(latest))

    def _replace_latest(self, key: bytes, value: bytes | None, timestamp: int, latest: bytes) -> None:
        old, valid_from = unpack_timestamped(latest)
        if timestamp > valid_from:
            self._append(self._segments.id_of(timestamp), key, old, valid_from, timestamp)
        self._set_latest(key, value, timestamp)

    def _put_among_earlier(self, key: bytes, value: bytes | None, timestamp: int, valid_to: int | None) -> int:
        for segment in self._segments.between(timestamp, MAX_MILLIS, reverse=True):
            versions = self._load(segment, key)
            if versions is None:
                continue
            if versions.next_timestamp <= timestamp:
                break
            if versions.min_timestamp <= timestamp:
                return self._put_into(segment, versions, key, value, timestamp)
            valid_to = versions.min_timestamp
        if valid_to is None:
            self._put_as_newest(key, value, timestamp)
            return LATEST
        self._put_before(key, value, timestamp, valid_to)
        return valid_to

    def _put_into(self, segment: int, versions: VersionList, key: bytes, value: bytes | None, timestamp: int) -> int:
        """Puts a version among those of a segment that reach before and after it."""
        found = versions.find(timestamp)
        own_segment = self._segments.id_of(timestamp)
        if found.valid_from == timestamp:
            versions.replace(found.place, timestamp, value)
        elif own_segment != segment:
            # The version before ends here now, and so belongs into an earlier segment.
            self._append(own_segment, key, found.value, found.valid_from, timestamp)
            versions.replace(found.place, timestamp, value)
        else:
            versions.insert(found.place, timestamp, value)
        self._save(segment, key, versions)
        return found.valid_to

    def _put_as_newest(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        """Puts a version after which there is none; a deletion has to be remembered all the same."""
        if value is not None:
            self._set_latest(key, value, timestamp)
            return
        segment = self._segments.id_of(timestamp)
        versions = self._load(segment, key)
        if versions is None:
            self._segments.admit(segment, self._stream_time)
            self._save(segment, key, VersionList(timestamp, [(timestamp, None)]))
        elif versions.next_timestamp != timestamp:
            versions.append(versions.next_timestamp, timestamp, None)
            self._save(segment, key, versions)

    def _put_before(self, key: bytes, value: bytes | None, timestamp: int, valid_to: int) -> None:
        """Puts a version before the earliest one known after it."""
        segment = self._segments.id_of(valid_to)
        versions = self._load(segment, key)
        if versions is None:
            self._segments.admit(segment, self._stream_time)
            versions = VersionList(valid_to, [(timestamp, value)])
        elif versions.next_timestamp <= timestamp:
            versions.append(timestamp, valid_to, value)
        else:
            versions.prepend(timestamp, value)
        self._save(segment, key, versions)

    def _append(self, segment: int, key: bytes, value: bytes | None, valid_from: int, valid_to: int) -> None:
        if not self._segments.admit(segment, self._stream_time):
            return
        versions = self._load(segment, key)
        if versions is None:
            versions = VersionList(valid_to, [(valid_from, value)])
        else:
            versions.append(valid_from, valid_to, value)
        self._save(segment, key, versions)

    def _set_latest(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        if value is None:
            self._ordered.delete(_LATEST_VALUES + key)
        else:
            self._ordered.put(_LATEST_VALUES + key, pack_timestamped(value, timestamp))

    def _load(self, segment: int, key: bytes) -> VersionList | None:
        packed = self._ordered.get(self._segments.prefix(segment) + key)
        return None if packed is None else unpack_versions(packed)

    def _save(self, segment: int, key: bytes, versions: VersionList) -> None:
        self._ordered.put(self._segments.prefix(segment) + key, pack_versions(versions))


def _interval(retention_ms: int) -> int:
    if retention_ms <= 60_000:
        return max(retention_ms // 3, 2_000)
    if retention_ms <= 300_000:
        return max(retention_ms // 5, 20_000)
    if retention_ms <= 3_600_000:
        return max(retention_ms // 12, 60_000)
    return max(retention_ms // 24, 300_000)
