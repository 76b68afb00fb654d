"""Stores: state stores for processors."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

from headrace.duration import to_millis
from headrace.errors import ConfigError
from headrace.serdes import Serde
from headrace.topology.stores import StoreKind, StoreSpec

logger = logging.getLogger(__name__)


class Stores:
    """Makes state stores for `add_state_store`; they have a changelog and no cache unless told otherwise."""

    @staticmethod
    def key_value(
        name: str,
        key: Serde[Any] | None = None,
        value: Serde[Any] | None = None,
        *,
        logging: bool = True,
        caching: bool = False,
    ) -> StoreSpec:
        """Values by key."""
        return StoreSpec(_name(name), StoreKind.KEY_VALUE, key, value, logging=logging, caching=caching)

    @staticmethod
    def timestamped_key_value(
        name: str,
        key: Serde[Any] | None = None,
        value: Serde[Any] | None = None,
        *,
        logging: bool = True,
        caching: bool = False,
    ) -> StoreSpec:
        """Values with their timestamps by key."""
        return StoreSpec(_name(name), StoreKind.TIMESTAMPED_KEY_VALUE, key, value, logging=logging, caching=caching)

    @staticmethod
    def versioned(
        name: str,
        key: Serde[Any] | None = None,
        value: Serde[Any] | None = None,
        *,
        history_retention: timedelta,
        logging: bool = True,
    ) -> StoreSpec:
        """Values by key together with the earlier ones, for as long as `history_retention`."""
        retention = to_millis(history_retention, f"Store {name}: history_retention")
        return StoreSpec(_name(name), StoreKind.VERSIONED, key, value, retention_ms=retention, logging=logging)

    @staticmethod
    def window(
        name: str,
        key: Serde[Any] | None = None,
        value: Serde[Any] | None = None,
        *,
        retention: timedelta,
        size: timedelta,
        retain_duplicates: bool = False,
        logging: bool = True,
        caching: bool = False,
    ) -> StoreSpec:
        """Values by key and start of a window; with `retain_duplicates` several for the same."""
        return _window_store(StoreKind.WINDOW, name, key, value, retention, size, retain_duplicates, logging, caching)

    @staticmethod
    def timestamped_window(
        name: str,
        key: Serde[Any] | None = None,
        value: Serde[Any] | None = None,
        *,
        retention: timedelta,
        size: timedelta,
        logging: bool = True,
        caching: bool = False,
    ) -> StoreSpec:
        """Values with their timestamps by key and start of a window."""
        return _window_store(StoreKind.TIMESTAMPED_WINDOW, name, key, value, retention, size, False, logging, caching)

    @staticmethod
    def session(
        name: str,
        key: Serde[Any] | None = None,
        value: Serde[Any] | None = None,
        *,
        retention: timedelta,
        logging: bool = True,
        caching: bool = False,
    ) -> StoreSpec:
        """Values by key and session."""
        retention_ms = to_millis(retention, f"Store {name}: retention")
        return StoreSpec(
            _name(name), StoreKind.SESSION, key, value, retention_ms=retention_ms, logging=logging, caching=caching
        )


def _window_store(
    kind: StoreKind,
    name: str,
    key: Serde[Any] | None,
    value: Serde[Any] | None,
    retention: timedelta,
    size: timedelta,
    retain_duplicates: bool,
    logged: bool,
    caching: bool,
) -> StoreSpec:
    retention_ms = to_millis(retention, f"Store {name}: retention")
    size_ms = to_millis(size, f"Store {name}: size")
    if size_ms > retention_ms:
        raise ConfigError(
            f"The retention period of the window store {name} must be no smaller than its window size. "
            f"Got size=[{size_ms}], retention=[{retention_ms}]"
        )
    if caching and retain_duplicates:
        logger.warning("Disabling caching for %s since store was configured to retain duplicates", name)
        caching = False
    return StoreSpec(
        _name(name),
        kind,
        key,
        value,
        retention_ms=retention_ms,
        window_size_ms=size_ms,
        retain_duplicates=retain_duplicates,
        logging=logged,
        caching=caching,
    )


def _name(name: str) -> str:
    if not isinstance(name, str) or not name:
        raise ConfigError(f"A store needs a name, not {name!r}")
    return name
