"""Percentiles, one definition for all figures."""

from __future__ import annotations

from collections.abc import Sequence


def percentile(values: Sequence[float], share: float) -> float:
    """The first of the sorted values that has at least this share of all before it."""
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]
