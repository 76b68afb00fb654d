"""Runs a scenario on Headrace's test driver as if it had been interrupted: the rest of it, with stores made anew."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from headrace.errors import HeadraceError
from headrace.state.memory import MemoryStore
from headrace.state.rebuild import ChangelogRecord, rebuild
from headrace.testing import TopologyTestDriver
from headrace.testing.state import DriverState
from headrace.topology import Topology
from headrace.topology.nodes import SourceNode
from headrace.topology.stores import StoreKind, StoreSpec
from tests.oracle.headrace_side import build, by_topic, config_of, failure_of, happen
from tests.oracle.kafka_side import contents
from tests.oracle.outcome import Outcome, Written
from tests.oracle.scenario import Pipe, Scenario, start_trace, traced

Produced = Sequence[dict[str, list[Written]]]
"""What each event wrote, by topic."""

_INTERNAL = frozenset(
    {StoreKind.SUPPRESS_BUFFER, StoreKind.STREAM_BUFFER, StoreKind.OUTER_JOIN, StoreKind.SUBSCRIPTION}
)


@dataclass
class Moment:
    """Where a run stood after some of its events."""

    state: DriverState
    traced: int
    printed: int


@dataclass
class Recording:
    """A run without interruption, and where it stood after each number of events."""

    scenario: Scenario
    cache_max_bytes: int | None
    topology: Topology
    outcome: Outcome = field(default_factory=Outcome)
    """Its stores are all stores, byte by byte."""
    moments: list[Moment] = field(default_factory=list)

    def cuts(self) -> range:
        """After how many events the run can be interrupted: something has happened, and something is left."""
        events = len(self.moments) if self.outcome.failure is not None else len(self.moments) - 1
        return range(1, events)

    def rest(self, cut: int) -> Outcome:
        """What came after that many events."""
        moment = self.moments[cut]
        return replace(
            rest_of(self.outcome, cut),
            traced=self.outcome.traced[moment.traced :],
            printed=self.outcome.printed[moment.printed :],
        )

    def kept(self, cut: int) -> DriverState:
        """The state after that many events with all stores as they were, but those of global tables."""
        stores = self.moments[cut].state.stores
        return self._state(cut, {name: stores[name] for name, _ in self._own_stores()})

    def rebuilt(self, cut: int, produced: Produced, *, with_facts: bool, compacted: bool) -> DriverState:
        """The state after that many events with stores rebuilt from the changelogs, and their facts if wanted.

        A store without a changelog is kept.
        """
        stores: dict[str, MemoryStore] = {}
        for name, spec in self._own_stores():
            kept = self.moments[cut].state.stores[name]
            if not spec.logging:
                stores[name] = kept
                continue
            records = changelog(f"app-{name}-changelog", produced[:cut])
            ordered = stores[name] = MemoryStore()
            rebuild(spec, ordered, compact(records, spec) if compacted else records)
            for fact, value in kept.facts().items() if with_facts else ():
                ordered.meta_put(fact, value)
        return self._state(cut, stores)

    def go_on(self, cut: int, state: DriverState, *, as_users_see_stores: bool = False) -> Outcome:
        """Runs what is left after that many events from a state; global tables are read again first."""
        outcome = Outcome()
        printed = io.StringIO()
        with redirect_stdout(printed):
            config = config_of(self.scenario.config, self.cache_max_bytes)
            driver = TopologyTestDriver(self.topology, config, state=state)
            for event in self._global_records(cut):
                happen(driver, event)
            start_trace()
            printed.seek(0)
            printed.truncate()
            for _ in _happening(driver, self.scenario, cut, outcome):
                pass
        _end(driver, outcome, printed)
        if as_users_see_stores and outcome.failure is None:
            outcome.stores = self._seen_by_users(driver)
        return outcome

    def _own_stores(self) -> list[tuple[str, StoreSpec]]:
        return [(name, spec) for name, spec in self.topology.stores.items() if self._is_own(name)]

    def _is_own(self, name: str) -> bool:
        return name in self.moments[0].state.stores and not self.topology.stores[name].is_global

    def _state(self, cut: int, stores: dict[str, MemoryStore]) -> DriverState:
        state = self.moments[cut].state
        offsets = {topic: offset for topic, offset in state.offsets.items() if topic not in self._global_topics()}
        # Through JSON, as a commit record carries it.
        task = msgspec.json.decode(msgspec.json.encode(state.task))
        return DriverState(stores, task, offsets, state.wall_clock)

    def _global_topics(self) -> set[str]:
        nodes = (self.topology.nodes[name] for name in self.topology.global_nodes)
        return {topic for node in nodes if isinstance(node, SourceNode) for topic in node.topics}

    def _global_records(self, cut: int) -> list[Pipe]:
        """What was written to the topics of global tables, by the scenario or by the topology itself."""
        topics = self._global_topics()
        found: list[Pipe] = []
        for event, written in zip(self.scenario.inputs[:cut], self.outcome.produced, strict=False):
            if isinstance(event, Pipe) and event.topic in topics:
                found.append(event)
            for topic in topics:
                found += (
                    Pipe(topic, one.key, one.value, one.timestamp or 0, one.headers) for one in written.get(topic, ())
                )
        return found

    def _seen_by_users(self, driver: TopologyTestDriver) -> dict[str, list[Any]]:
        stores = {name: driver.store(name) for name, spec in self._own_stores() if spec.kind not in _INTERNAL}
        inputs = self.scenario.inputs
        return {name: contents(store, not hasattr(store, "all"), inputs) for name, store in stores.items()}


def record(scenario: Scenario, cache_max_bytes: int | None) -> Recording | None:
    """Runs the scenario in one go; None where the topology cannot even be set up."""
    outcome = Outcome()
    topology = build(scenario, outcome)
    if topology is None:
        return None
    run = Recording(scenario, cache_max_bytes, topology, outcome)
    printed = io.StringIO()
    start_trace()
    with redirect_stdout(printed):
        try:
            driver = TopologyTestDriver(topology, config_of(scenario.config, cache_max_bytes), initial_wall_clock=0)
        except HeadraceError:
            return None
        for _ in _happening(driver, scenario, 0, outcome):
            lines = len(printed.getvalue().splitlines())
            run.moments.append(Moment(driver.state(), len(traced()), lines))
    _end(driver, outcome, printed)
    return run


def rest_of(outcome: Outcome, cut: int) -> Outcome:
    """What an outcome has after that many events, without what was traced and printed."""
    failure = outcome.failure
    if failure is not None and failure.event is not None:
        failure = replace(failure, event=failure.event - cut)
    return Outcome(produced=outcome.produced[cut:], stores=outcome.stores, failure=failure)


def changelog(topic: str, produced: Produced) -> list[ChangelogRecord]:
    """The records of a changelog."""
    return [
        (record.key or b"", record.value, record.timestamp or 0, record.headers)
        for event in produced
        for record in event.get(topic, ())
    ]


def compact(records: list[ChangelogRecord], spec: StoreSpec) -> list[ChangelogRecord]:
    """What compaction leaves in the end: the last record of each key, and no tombstones.

    The changelog of a versioned store is not compacted for as long as its history is retained (min.compaction.lag.ms).
    """
    if spec.kind is StoreKind.VERSIONED:
        return records
    last = {record[0]: record for record in records}
    return [record for record in records if last[record[0]] is record and record[1] is not None]


def _happening(driver: TopologyTestDriver, scenario: Scenario, cut: int, outcome: Outcome) -> Iterator[None]:
    """Lets the events from the cut on happen, and stops before the first and after each."""
    seen = len(driver.produced())
    yield
    for index, event in enumerate(scenario.inputs[cut:]):
        try:
            happen(driver, event)
        except Exception as error:
            # Whatever it is, it is an outcome to compare.
            outcome.failure = failure_of(error, index)
            return
        produced = driver.produced()
        outcome.produced.append(by_topic(produced[seen:]))
        seen = len(produced)
        yield


def _end(driver: TopologyTestDriver, outcome: Outcome, printed: io.StringIO) -> None:
    outcome.traced = traced()
    outcome.printed = printed.getvalue().splitlines()
    if outcome.failure is None:
        outcome.stores = {name: _bytes_of(store) for name, store in driver.state().stores.items()}


def _bytes_of(store: MemoryStore) -> list[Any]:
    """All entries and facts."""
    return [*sorted(store.entries()), *sorted(store.facts().items())]
