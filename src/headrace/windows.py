"""The kinds of windows: how a timestamp becomes the windows it belongs to."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from typing import ClassVar

from headrace.duration import MAX_MILLIS, to_millis
from headrace.errors import ConfigError

ZERO = timedelta(0)


@dataclass(frozen=True)
class TimeWindows:
    """Windows of a fixed size: tumbling, or hopping where `advance` is smaller than `size`."""

    size: timedelta
    grace: timedelta = ZERO
    advance: timedelta | None = None
    size_ms: int = field(init=False, repr=False, compare=False)
    grace_ms: int = field(init=False, repr=False, compare=False)
    advance_ms: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        size_ms = to_millis(self.size, "TimeWindows size", minimum=1)
        advance_ms = size_ms if self.advance is None else to_millis(self.advance, "TimeWindows advance", minimum=1)
        if advance_ms > size_ms:
            raise ConfigError(f"TimeWindows advance must not be larger than the size {self.size}, not {self.advance}")
        object.__setattr__(self, "size_ms", size_ms)
        object.__setattr__(self, "grace_ms", to_millis(self.grace, "TimeWindows grace"))
        object.__setattr__(self, "advance_ms", advance_ms)

    def starts_for(self, timestamp: int) -> range:
        """The starts of all windows that the timestamp belongs to, earliest first."""
        advance = self.advance_ms
        earliest = timestamp - self.size_ms + advance
        return range(earliest // advance * advance if earliest > 0 else 0, timestamp + 1, advance)


@dataclass(frozen=True)
class UnlimitedWindows:
    """One window without an end."""

    start_on: int = 0
    size_ms: ClassVar[int] = MAX_MILLIS
    grace_ms: ClassVar[int] = 0

    def __post_init__(self) -> None:
        if self.start_on < 0:
            raise ConfigError(f"UnlimitedWindows start_on must not be negative, not {self.start_on}")

    def starts_for(self, timestamp: int) -> range:
        """The start of the window, or nothing for a timestamp before it."""
        return range(self.start_on, self.start_on + 1) if timestamp >= self.start_on else range(0)


@dataclass(frozen=True)
class SlidingWindows:
    """Windows that hold all records no further apart than `time_difference`, both ends included."""

    time_difference: timedelta
    grace: timedelta = ZERO
    time_difference_ms: int = field(init=False, repr=False, compare=False)
    grace_ms: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        difference = to_millis(self.time_difference, "SlidingWindows time_difference", minimum=1)
        object.__setattr__(self, "time_difference_ms", difference)
        object.__setattr__(self, "grace_ms", to_millis(self.grace, "SlidingWindows grace"))


@dataclass(frozen=True)
class SessionWindows:
    """Windows of activity, each ended by a `gap` without a record."""

    gap: timedelta
    grace: timedelta = ZERO
    gap_ms: int = field(init=False, repr=False, compare=False)
    grace_ms: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "gap_ms", to_millis(self.gap, "SessionWindows gap"))
        object.__setattr__(self, "grace_ms", to_millis(self.grace, "SessionWindows grace"))


@dataclass(frozen=True)
class JoinWindows:
    """How far `before` and `after` a record of this side one of the other side may be to join it."""

    before: timedelta
    after: timedelta
    grace: timedelta = ZERO
    before_ms: int = field(init=False, repr=False, compare=False)
    after_ms: int = field(init=False, repr=False, compare=False)
    grace_ms: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("before", "after"):
            millis = to_millis(getattr(self, name), f"JoinWindows {name}", minimum=-MAX_MILLIS)
            object.__setattr__(self, f"{name}_ms", millis)
        object.__setattr__(self, "grace_ms", to_millis(self.grace, "JoinWindows grace"))
        if self.size_ms < 0:
            raise ConfigError(f"JoinWindows before + after must not be negative: {self.before} + {self.after}")

    @classmethod
    def of(cls, difference: timedelta, grace: timedelta = ZERO) -> JoinWindows:
        """Windows that reach `difference` to both sides."""
        return cls(before=difference, after=difference, grace=grace)

    @property
    def size_ms(self) -> int:
        """How wide the window is in milliseconds."""
        return self.before_ms + self.after_ms


class EmitStrategy(Enum):
    """When a windowed aggregation emits its results."""

    ON_WINDOW_UPDATE = "on_window_update"
    ON_WINDOW_CLOSE = "on_window_close"

    @classmethod
    def on_window_update(cls) -> EmitStrategy:
        """Each update of a window is a result."""
        return cls.ON_WINDOW_UPDATE

    @classmethod
    def on_window_close(cls) -> EmitStrategy:
        """Only the final result of a window, once it is closed (end and grace have passed)."""
        return cls.ON_WINDOW_CLOSE
