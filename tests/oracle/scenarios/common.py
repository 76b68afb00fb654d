"""What the scenarios share: short names for serdes, durations and common joiners."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from headrace import Consumed, Produced, Serdes

S = Serdes.string()
L = Serdes.long()
J = Serdes.json()
STRINGS = Consumed(key=S, value=S)
LONGS = Consumed(key=S, value=L)
JSON = Consumed(key=S, value=J)
OUT = Produced(key=S, value=S)
OUT_LONG = Produced(key=S, value=L)
OUT_JSON = Produced(key=S, value=J)


def ms(millis: int) -> timedelta:
    """So many milliseconds."""
    return timedelta(milliseconds=millis)


def plus(a: Any, b: Any) -> str:
    """Both values as text, with a null shown as such."""
    return f"{a}+{b}"


def keyed_plus(k: Any, a: Any, b: Any) -> str:
    """Key and both values as text."""
    return f"{k}:{a}+{b}"


def to_windowed(size: int, value: Any = None) -> Produced:
    """How results of windows of one size are written."""
    return Produced(key=Serdes.windowed(S, ms(size)), value=value or L)


def to_sessions(value: Any = None) -> Produced:
    """How results of sessions are written."""
    return Produced(key=Serdes.session_windowed(S), value=value or L)
