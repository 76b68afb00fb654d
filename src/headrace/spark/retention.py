"""Keeps Kafka from deleting what stores of old times still need.

Kafka deletes windows from a changelog, and compacts away versions, by the age of their records. An application that
works through the records of last year has windows and versions of last year, and would find them gone when it rebuilds
a store. While its time lags behind the clock, the changelogs keep everything.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from headrace.errors import EnvironmentFailed, KafkaAway
from headrace.kafka.topics import ADDITIONAL_RETENTION_MS, Topics, changelog_configs
from headrace.spark.commit_record import TaskState
from headrace.state.metadata import STREAM_TIME, unpack_number
from headrace.topology.stores import StoreSpec

logger = logging.getLogger(__name__)

_LIMITS = {"retention.ms": "-1", "min.compaction.lag.ms": str(2**63 - 1)}
"""Settings that let a record of a certain age go, with the value that keeps all."""


class ChangelogRetention:
    """The changelogs of stores that Kafka deletes from by age."""

    def __init__(self, topics: Topics, changelogs: Mapping[str, str], stores: Iterable[StoreSpec]) -> None:
        self._topics = topics
        self._usual: dict[str, dict[str, str]] = {}
        """By store, the settings that let records go."""
        for spec in stores:
            limits = {name: value for name, value in changelog_configs(spec).items() if name in _LIMITS}
            if limits and spec.name in changelogs:
                self._usual[spec.name] = limits
        self._changelogs = changelogs
        self._behind: dict[str, set[str]] = {store: set() for store in self._usual}
        """By store, the tasks whose time lags behind."""
        self._keeps_all: dict[str, bool] = {}

    def begin(self, states: Mapping[str, TaskState], now: int) -> None:
        """Has the changelogs fit the times that all tasks had at the last commit."""
        topics = {self._changelogs[store]: store for store in self._usual}
        for topic, configs in self._topics.configs(topics).items():
            store = topics[topic]
            self._keeps_all[store] = all(configs[name] == _LIMITS[name] for name in self._usual[store])
        self.follow(states, now)

    def follow(self, states: Mapping[str, TaskState], now: int) -> None:
        """Has the changelogs fit the times of the stores, before what these have written is committed."""
        for store, usual in self._usual.items():
            for task, state in states.items():
                packed = state.facts.get(store, {}).get(STREAM_TIME)
                if packed is not None:
                    lags = unpack_number(packed) < now - ADDITIONAL_RETENTION_MS // 2
                    (self._behind[store].add if lags else self._behind[store].discard)(task)
            keep_all = bool(self._behind[store])
            if keep_all != self._keeps_all.get(store, False):
                self._set(store, {name: _LIMITS[name] for name in usual} if keep_all else usual)
                self._keeps_all[store] = keep_all

    def _set(self, store: str, configs: Mapping[str, str]) -> None:
        topic = self._changelogs[store]
        try:
            self._topics.configure(topic, configs)
        except KafkaAway:
            raise
        except EnvironmentFailed as error:
            told = ", ".join(f"{name}={value}" for name, value in configs.items())
            raise EnvironmentFailed(
                f"Store {store} has records of old times, which Kafka would delete from topic {topic} while they are "
                f"still needed, and its settings could not be changed ({error}). Allow the application to alter them, "
                f"or set {told} yourself."
            ) from error
