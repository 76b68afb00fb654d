"""Serdes that wait for the application's default: derived ones whose inner serde the user left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.serdes import Serde


@dataclass(frozen=True)
class DerivedSerde:
    """A serde made from others; where one of them is None, the application's default takes its place.

    `parts` are pairs of the serde, or None, and which default stands in for it: "key" or "value".
    """

    parts: tuple[tuple[SerdeRef, str], ...]
    derive: Callable[..., Serde[Any]]


SerdeRef = Serde[Any] | DerivedSerde | None
"""A serde, one that is derived, or None for the application's default."""


def derived(derive: Callable[..., Serde[Any]], *parts: tuple[SerdeRef, str]) -> Serde[Any] | DerivedSerde:
    """The derived serde, at once where all its parts are there."""
    if all(isinstance(serde, Serde) for serde, _ in parts):
        return derive(*(serde for serde, _ in parts))
    return DerivedSerde(parts, derive)


def resolve(serde: SerdeRef, role: str, defaults: dict[str, Serde[Any] | None]) -> Serde[Any] | None:
    """The serde itself, or the default for its role; None where there is none."""
    if serde is None:
        return defaults[role]
    if isinstance(serde, DerivedSerde):
        parts = [resolve(part, part_role, defaults) for part, part_role in serde.parts]
        return None if None in parts else serde.derive(*parts)
    return serde
