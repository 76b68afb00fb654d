"""What `KTable.suppress` holds back, and for how long."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from headrace.duration import MAX_MILLIS, to_millis
from headrace.errors import ConfigError


@dataclass(frozen=True)
class BufferConfig:
    """How large a suppress buffer may grow, before `emit_early_when_full()` or `shut_down_when_full()` applies."""

    records: int = MAX_MILLIS
    bytes: int = MAX_MILLIS
    emit_early: bool = True
    logging: bool = True

    @classmethod
    def unbounded(cls) -> StrictBufferConfig:
        """A buffer that grows as it must."""
        return StrictBufferConfig(emit_early=False)

    @classmethod
    def max_records(cls, records: int) -> EagerBufferConfig:
        """A buffer of at most so many records; it emits early when full."""
        return EagerBufferConfig(records=_positive(records, "max_records"))

    @classmethod
    def max_bytes(cls, size: int) -> EagerBufferConfig:
        """A buffer of at most so many bytes; it emits early when full."""
        return EagerBufferConfig(bytes=_positive(size, "max_bytes"))

    def with_no_bound(self) -> StrictBufferConfig:
        """The same buffer without a limit."""
        return StrictBufferConfig(emit_early=False, logging=self.logging)

    def shut_down_when_full(self) -> StrictBufferConfig:
        """The same buffer, which stops the application rather than emit early."""
        return StrictBufferConfig(self.records, self.bytes, emit_early=False, logging=self.logging)

    def emit_early_when_full(self) -> EagerBufferConfig:
        """The same buffer, which emits its oldest record to make room."""
        return EagerBufferConfig(self.records, self.bytes, emit_early=True, logging=self.logging)


class EagerBufferConfig(BufferConfig):
    """A buffer that emits early when it is full."""

    def with_max_records(self, records: int) -> EagerBufferConfig:
        """The same buffer with a limit in records."""
        return replace(self, records=_positive(records, "with_max_records"))

    def with_max_bytes(self, size: int) -> EagerBufferConfig:
        """The same buffer with a limit in bytes."""
        return replace(self, bytes=_positive(size, "with_max_bytes"))

    def with_logging_disabled(self) -> EagerBufferConfig:
        """The same buffer without a changelog."""
        return replace(self, logging=False)


class StrictBufferConfig(BufferConfig):
    """A buffer that never emits early."""

    def with_max_records(self, records: int) -> StrictBufferConfig:
        """The same buffer with a limit in records."""
        return replace(self, records=_positive(records, "with_max_records"))

    def with_max_bytes(self, size: int) -> StrictBufferConfig:
        """The same buffer with a limit in bytes."""
        return replace(self, bytes=_positive(size, "with_max_bytes"))

    def with_logging_disabled(self) -> StrictBufferConfig:
        """The same buffer without a changelog."""
        return replace(self, logging=False)


@dataclass(frozen=True)
class Suppressed:
    """What to hold back: make one with `until_window_closes` or `until_time_limit`."""

    buffer: BufferConfig
    time_limit_ms: int | None = None
    """None holds back until the window closes."""
    name: str | None = None

    @classmethod
    def until_window_closes(cls, buffer: StrictBufferConfig, name: str | None = None) -> Suppressed:
        """Only the final result of each window: nothing is ever emitted early."""
        if buffer.emit_early:
            raise ConfigError(
                "Suppressed.until_window_closes needs a buffer that never emits early: "
                "BufferConfig.unbounded(), or shut_down_when_full() on a limited one"
            )
        return cls(buffer, None, name)

    @classmethod
    def until_time_limit(cls, limit: timedelta, buffer: BufferConfig, name: str | None = None) -> Suppressed:
        """At most one result per key in each `limit` of time."""
        return cls(buffer, to_millis(limit, "Suppressed.until_time_limit"), name)

    def with_name(self, name: str) -> Suppressed:
        """The same under a name of its own."""
        return replace(self, name=name)

    @property
    def until_window_close(self) -> bool:
        """Whether only final results are emitted."""
        return self.time_limit_ms is None


def _positive(number: int, what: str) -> int:
    if number < 0:
        raise ConfigError(f"BufferConfig.{what} must not be negative, not {number}")
    return number
