"""What listeners are told of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class BatchProgress:
    """What a batch did."""

    batch: int
    records: int
    outputs: int
    dropped: Mapping[str, int]
    stores: Mapping[str, int]
    seconds: float
    rebuilt_records: int = 0
    """Records of changelogs that were read to rebuild working copies."""
    rebuild_seconds: float = 0.0
    """How long that took, all tasks together."""
