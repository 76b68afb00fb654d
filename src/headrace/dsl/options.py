"""The options of the operators: small frozen dataclasses with keyword arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from headrace.serdes import Serde

if TYPE_CHECKING:
    from headrace.dsl.stream import KStream

Partitioner = Callable[[str, Any, Any, int], "int | None"]
"""(topic, key, value, number of partitions) -> partition; None leaves it to Kafka's default."""

TimestampExtractor = Callable[[Any, int], int]
"""(record, partition_time) -> timestamp in milliseconds."""


@dataclass(frozen=True)
class Consumed:
    """How a topic is read."""

    key: Serde[Any] | None = None
    value: Serde[Any] | None = None
    timestamp_extractor: TimestampExtractor | None = None
    offset_reset: str | None = "earliest"
    name: str | None = None


@dataclass(frozen=True)
class Produced:
    """How a topic is written."""

    key: Serde[Any] | None = None
    value: Serde[Any] | None = None
    partitioner: Partitioner | None = None
    name: str | None = None


@dataclass(frozen=True)
class Grouped:
    """How records are grouped; the name is that of the repartition topic, if one is needed."""

    key: Serde[Any] | None = None
    value: Serde[Any] | None = None
    name: str | None = None


@dataclass(frozen=True)
class Repartitioned:
    """How records are repartitioned."""

    key: Serde[Any] | None = None
    value: Serde[Any] | None = None
    name: str | None = None
    partitions: int | None = None
    partitioner: Partitioner | None = None


@dataclass(frozen=True)
class Joined:
    """The serdes of a stream–table join; with `grace` the stream side waits for a versioned table."""

    key: Serde[Any] | None = None
    value: Serde[Any] | None = None
    other: Serde[Any] | None = None
    grace: timedelta | None = None
    name: str | None = None


@dataclass(frozen=True)
class StreamJoined:
    """The serdes and stores of a stream–stream join."""

    key: Serde[Any] | None = None
    value: Serde[Any] | None = None
    other: Serde[Any] | None = None
    name: str | None = None
    store_name: str | None = None
    logging: bool = True


@dataclass(frozen=True)
class TableJoined:
    """The name and partitioners of a foreign-key join."""

    partitioner: Partitioner | None = None
    other_partitioner: Partitioner | None = None
    name: str | None = None


@dataclass(frozen=True)
class Branched:
    """A branch of `split`: its name, and a function that continues the branch's stream."""

    name: str | None = None
    function: Callable[[KStream], KStream | None] | None = None


@dataclass(frozen=True, kw_only=True)
class _MaterializedOptions:
    key: Serde[Any] | None = None
    value: Serde[Any] | None = None
    retention: timedelta | None = None
    caching: bool = True
    logging: bool = True
    ttl: timedelta | None = None
    history_retention: timedelta | None = None


@dataclass(frozen=True)
class Materialized(_MaterializedOptions):
    """How a table is kept: the store's name, serdes, retention, caching and changelog."""

    name: str | None = None

    @classmethod
    def versioned(
        cls,
        name: str,
        history_retention: timedelta,
        *,
        key: Serde[Any] | None = None,
        value: Serde[Any] | None = None,
        logging: bool = True,
    ) -> Materialized:
        """A table that keeps earlier values for as long as `history_retention`."""
        return cls(name, key=key, value=value, logging=logging, history_retention=history_retention)
