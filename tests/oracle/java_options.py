"""Headrace's options as those of Kafka Streams."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from py4j.java_gateway import JavaObject

from headrace.dsl.options import (
    Consumed,
    Grouped,
    Joined,
    Materialized,
    Produced,
    Repartitioned,
    StreamJoined,
    TableJoined,
)
from headrace.dsl.suppressed import BufferConfig, Suppressed
from headrace.duration import MAX_MILLIS
from headrace.topology.stores import StoreKind, StoreSpec
from headrace.windows import EmitStrategy, JoinWindows, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows
from tests.oracle.boxes import Boxes, JavaLong
from tests.oracle.functions import Functions


class Options:
    """Translates options; None where an option says nothing."""

    def __init__(self, boxes: Boxes) -> None:
        self._boxes = boxes
        self._jvm = boxes.jvm
        self._kstream = boxes.streams.kstream
        self._functions = Functions(boxes)

    def duration(self, duration: timedelta | int) -> JavaObject:
        millis = duration if isinstance(duration, int) else duration // timedelta(milliseconds=1)
        return self._jvm.java.time.Duration.ofMillis(JavaLong(millis))

    def instant(self, millis: int) -> JavaObject:
        return self._jvm.java.time.Instant.ofEpochMilli(JavaLong(millis))

    def named(self, name: str) -> JavaObject:
        return _as(self._kstream.Named, name)

    def serde(self, serde: Any) -> JavaObject | None:
        return None if serde is None else self._functions.serde(serde)

    def consumed(self, options: Consumed | None, name: str | None = None) -> JavaObject:
        options = options or Consumed()
        java = getattr(self._kstream.Consumed, "with")(self.serde(options.key), self.serde(options.value))
        if options.timestamp_extractor is not None:
            java = java.withTimestampExtractor(self._functions.timestamp_extractor(options.timestamp_extractor))
        if options.offset_reset is not None:
            java = java.withOffsetResetPolicy(getattr(self._boxes.streams.AutoOffsetReset, options.offset_reset)())
        return _named(java, name or options.name)

    def produced(self, options: Produced | None, name: str | None = None) -> JavaObject:
        options = options or Produced()
        java = getattr(self._kstream.Produced, "with")(self.serde(options.key), self.serde(options.value))
        if options.partitioner is not None:
            java = java.withStreamPartitioner(self._functions.partitioner(options.partitioner))
        return _named(java, name or options.name)

    def grouped(self, options: Grouped | None, name: str | None = None) -> JavaObject | None:
        # Only where no Grouped is given at all, Kafka Streams groups with the serdes that the stream has.
        if options is None and name is None:
            return None
        options = options or Grouped()
        java = getattr(self._kstream.Grouped, "with")(self.serde(options.key), self.serde(options.value))
        return _named(java, name or options.name)

    def repartitioned(self, options: Repartitioned | None, name: str | None = None) -> JavaObject:
        options = options or Repartitioned()
        java = getattr(self._kstream.Repartitioned, "with")(self.serde(options.key), self.serde(options.value))
        if options.partitions is not None:
            java = java.withNumberOfPartitions(options.partitions)
        if options.partitioner is not None:
            java = java.withStreamPartitioner(self._functions.partitioner(options.partitioner))
        return _named(java, name or options.name)

    def joined(self, options: Joined | None, name: str | None = None) -> JavaObject:
        options = options or Joined()
        java = getattr(self._kstream.Joined, "with")(
            self.serde(options.key), self.serde(options.value), self.serde(options.other)
        )
        if options.grace is not None:
            java = java.withGracePeriod(self.duration(options.grace))
        return _named(java, name or options.name)

    def stream_joined(self, options: StreamJoined | None, name: str | None = None) -> JavaObject:
        options = options or StreamJoined()
        java = getattr(self._kstream.StreamJoined, "with")(
            self.serde(options.key), self.serde(options.value), self.serde(options.other)
        )
        if options.store_name is not None:
            java = java.withStoreName(options.store_name)
        if not options.logging:
            java = java.withLoggingDisabled()
        return _named(java, name or options.name)

    def table_joined(self, options: TableJoined | None, name: str | None = None) -> JavaObject | None:
        if options is None and name is None:
            return None
        options = options or TableJoined()
        partitioners = [
            None if partitioner is None else self._functions.partitioner(partitioner)
            for partitioner in (options.partitioner, options.other_partitioner)
        ]
        return _named(getattr(self._kstream.TableJoined, "with")(*partitioners), name or options.name)

    def materialized(self, options: Materialized | str | None) -> JavaObject | None:
        if options is None:
            return None
        if isinstance(options, str):
            options = Materialized(options)
        kind = self._kstream.Materialized
        key, value = self.serde(options.key), self.serde(options.value)
        if options.history_retention is not None:
            retention = self.duration(options.history_retention)
            java = _as(kind, self._boxes.streams.state.Stores.persistentVersionedKeyValueStore(options.name, retention))
        elif options.name is not None:
            java = _as(kind, options.name)
        else:
            java = getattr(kind, "with")(key, value)
        if key is not None:
            java = java.withKeySerde(key)
        if value is not None:
            java = java.withValueSerde(value)
        if options.retention is not None:
            java = java.withRetention(self.duration(options.retention))
        if not options.caching:
            java = java.withCachingDisabled()
        if not options.logging:
            java = java.withLoggingDisabled()
        return java

    def windows(self, windows: Any) -> JavaObject:
        kinds = self._kstream
        if isinstance(windows, TimeWindows):
            java = kinds.TimeWindows.ofSizeAndGrace(self.duration(windows.size_ms), self.duration(windows.grace_ms))
            return java if windows.advance is None else java.advanceBy(self.duration(windows.advance_ms))
        if isinstance(windows, SlidingWindows):
            difference, grace = self.duration(windows.time_difference_ms), self.duration(windows.grace_ms)
            return kinds.SlidingWindows.ofTimeDifferenceAndGrace(difference, grace)
        if isinstance(windows, SessionWindows):
            gap, grace = self.duration(windows.gap_ms), self.duration(windows.grace_ms)
            return kinds.SessionWindows.ofInactivityGapAndGrace(gap, grace)
        if isinstance(windows, UnlimitedWindows):
            return kinds.UnlimitedWindows.of().startOn(self.instant(windows.start_on))
        if isinstance(windows, JoinWindows):
            # The widest first: Kafka Streams checks after each step that the window is not negative.
            widest = max(abs(windows.before_ms), abs(windows.after_ms))
            java = kinds.JoinWindows.ofTimeDifferenceAndGrace(self.duration(widest), self.duration(windows.grace_ms))
            return java.before(self.duration(windows.before_ms)).after(self.duration(windows.after_ms))
        raise TypeError(f"no windows: {windows!r}")

    def emit_strategy(self, strategy: EmitStrategy) -> JavaObject:
        kinds = self._kstream.EmitStrategy
        return kinds.onWindowClose() if strategy is EmitStrategy.ON_WINDOW_CLOSE else kinds.onWindowUpdate()

    def suppressed(self, options: Suppressed, name: str | None = None) -> JavaObject:
        buffer = self._buffer(options.buffer)
        kind = self._kstream.Suppressed
        if options.time_limit_ms is None:
            java = kind.untilWindowCloses(buffer)
        else:
            java = kind.untilTimeLimit(self.duration(options.time_limit_ms), buffer)
        return _named(java, name or options.name)

    def _buffer(self, options: BufferConfig) -> JavaObject:
        java = self._kstream.Suppressed.BufferConfig.unbounded()
        if options.emit_early:
            java = java.emitEarlyWhenFull()
        if options.records < MAX_MILLIS:
            java = java.withMaxRecords(JavaLong(options.records))
        if options.bytes < MAX_MILLIS:
            java = java.withMaxBytes(JavaLong(options.bytes))
        return java if options.logging else java.withLoggingDisabled()

    def store_builder(self, spec: StoreSpec) -> JavaObject:
        stores = self._boxes.streams.state.Stores
        key, value = self.serde(spec.key), self.serde(spec.value)
        retention, size = self.duration(spec.retention_ms), self.duration(spec.window_size_ms)
        if spec.kind is StoreKind.KEY_VALUE:
            java = stores.keyValueStoreBuilder(stores.persistentKeyValueStore(spec.name), key, value)
        elif spec.kind is StoreKind.TIMESTAMPED_KEY_VALUE:
            supplier = stores.persistentTimestampedKeyValueStore(spec.name)
            java = stores.timestampedKeyValueStoreBuilder(supplier, key, value)
        elif spec.kind is StoreKind.WINDOW:
            supplier = stores.persistentWindowStore(spec.name, retention, size, spec.retain_duplicates)
            java = stores.windowStoreBuilder(supplier, key, value)
        elif spec.kind is StoreKind.TIMESTAMPED_WINDOW:
            supplier = stores.persistentTimestampedWindowStore(spec.name, retention, size, spec.retain_duplicates)
            java = stores.timestampedWindowStoreBuilder(supplier, key, value)
        elif spec.kind is StoreKind.SESSION:
            java = stores.sessionStoreBuilder(stores.persistentSessionStore(spec.name, retention), key, value)
        elif spec.kind is StoreKind.VERSIONED:
            supplier = stores.persistentVersionedKeyValueStore(spec.name, retention)
            java = stores.versionedKeyValueStoreBuilder(supplier, key, value)
        else:
            raise TypeError(f"users do not add a store of this kind: {spec.kind}")
        if spec.caching:
            java = java.withCachingEnabled()
        return java if spec.logging else java.withLoggingDisabled()


def _as(kind: Any, argument: Any) -> JavaObject:
    return getattr(kind, "as")(argument)


def _named(java: JavaObject, name: str | None) -> JavaObject:
    return java if name is None else java.withName(name)
