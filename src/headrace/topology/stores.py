"""A state store as data: its kind, serdes, retention, changelog and cache."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from headrace.topology.serde_refs import SerdeRef


class StoreKind(Enum):
    """The kinds of stores."""

    KEY_VALUE = "key-value"
    TIMESTAMPED_KEY_VALUE = "timestamped key-value"
    VERSIONED = "versioned"
    WINDOW = "window"
    TIMESTAMPED_WINDOW = "timestamped window"
    SESSION = "session"
    SUPPRESS_BUFFER = "suppress buffer"
    STREAM_BUFFER = "stream buffer"
    """The stream side of a stream–table join with grace."""
    OUTER_JOIN = "outer join"
    """Records of a left or outer stream–stream join that have not joined yet."""
    SUBSCRIPTION = "subscription"
    """Subscriptions of a foreign-key join."""


@dataclass(frozen=True)
class StoreSpec:
    """Everything an executor must know to make a store."""

    name: str
    kind: StoreKind
    key: SerdeRef = None
    value: SerdeRef = None
    other: SerdeRef = None
    """The right side's value serde in an outer-join store."""
    retention_ms: int = 0
    """How long windows, sessions and versions are kept."""
    window_size_ms: int = 0
    retain_duplicates: bool = False
    time_ordered: bool = False
    """Whether windows are kept by time first, for results on window close."""
    caching: bool = False
    logging: bool = True
    logs_headers: bool = False
    """Whether changelog records carry the headers of the record that caused them."""
    ttl_ms: int | None = None
    changelog_topic: str | None = None
    """The source topic that serves as changelog; None: `<application>-<store>-changelog`."""
    is_global: bool = False
