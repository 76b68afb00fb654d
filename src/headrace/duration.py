"""Durations: `timedelta` outside, int milliseconds inside."""

from __future__ import annotations

from datetime import timedelta

from headrace.errors import ConfigError

MAX_MILLIS = 2**63 - 1
"""The largest timestamp and the largest duration, as in Kafka."""

_MILLISECOND = timedelta(milliseconds=1)


def to_millis(duration: timedelta, what: str, *, minimum: int = 0) -> int:
    """The duration in whole milliseconds; `what` names it when it is wrong."""
    if not isinstance(duration, timedelta):
        raise ConfigError(f"{what} must be a datetime.timedelta, not {type(duration).__name__}: {duration!r}")
    millis = duration // _MILLISECOND
    if millis < minimum:
        raise ConfigError(f"{what} must be at least {minimum} ms, not {duration}")
    return millis
