"""Rebuilt equals kept: every scenario is interrupted after each of its events, all stores are rebuilt from changelogs
alone, and it goes on: with the same outputs and changelogs, to the same stores, byte by byte.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.oracle.interrupted import Recording, record, rest_of
from tests.oracle.outcome import Outcome, compare
from tests.oracle.parity import CACHES
from tests.oracle.scenario import Scenario, all_scenarios

SCENARIOS = [one for one in all_scenarios() if len(one.inputs) > 1]

CACHE_SHOWS_EXPIRED = """An expired entry is seen for as long as the cache has it, as in Kafka Streams, and the cache \
is empty after an interruption."""
PROCESSOR_REMEMBERS = """The processor counts in an attribute, or makes schedules after `init`: lost with the process, \
as in Kafka Streams."""

EXCEPTIONS = {
    "cached": {
        "cogroup: session windows, named": CACHE_SHOWS_EXPIRED,
        "session: no grace": CACHE_SHOWS_EXPIRED,
        "session: old sessions leave the store": CACHE_SHOWS_EXPIRED,
        "session: records earlier than the gap 59999, grace 0": CACHE_SHOWS_EXPIRED,
        "session: records earlier than the gap 59999, grace 600001": CACHE_SHOWS_EXPIRED,
        "session: the exact edge of grace": CACHE_SHOWS_EXPIRED,
        "session: two keys": CACHE_SHOWS_EXPIRED,
        "table-table join: of final windows": CACHE_SHOWS_EXPIRED,
        "table-table left_join: of final windows": CACHE_SHOWS_EXPIRED,
        "table-table outer_join: of final windows": CACHE_SHOWS_EXPIRED,
        "tumbling: old windows leave the store": CACHE_SHOWS_EXPIRED,
    },
    "uncached": {},
}
"""Where an interruption shows although nothing of the stores was lost, with the reason. These are compared with a run
that goes on from the stores as they were, and stores are compared as users see them: a session that was merged after
it had expired leaves no tombstone, in Kafka Streams neither, so a rebuilt store still hides it.
"""
for _cache in EXCEPTIONS.values():
    _cache["punctuation: start time, cancelled and scheduled again"] = PROCESSOR_REMEMBERS
    for _handler in ("default", "fail", "fail with dead letters", "continue with dead letters"):
        _cache[f"raising punctuator: {_handler}"] = PROCESSOR_REMEMBERS


def in_one_go(scenario: Scenario, cache: str) -> Recording:
    """The scenario without interruption."""
    run = record(scenario, CACHES[cache])
    if run is None or not run.cuts():
        pytest.skip("fails before anything has happened")
    return run


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_goes_on_from_its_own_changelogs_and_facts(scenario: Scenario, cache: str) -> None:
    run = in_one_go(scenario, cache)
    is_exception = str(scenario) in EXCEPTIONS[cache]
    for cut in run.cuts():
        if is_exception:
            names = ("kept", "rebuilt")
            expected = run.go_on(cut, run.kept(cut), as_users_see_stores=True)
        else:
            names = ("in one go", "rebuilt")
            expected = run.rest(cut)
        for compacted in (False, True):
            state = run.rebuilt(cut, run.outcome.produced, with_facts=True, compacted=compacted)
            actual = run.go_on(cut, state, as_users_see_stores=is_exception)
            found = compare(expected, actual, scenario.inputs[cut:], names)
            assert found is None, f"after {cut} events, {'compacted' if compacted else 'whole'}: {found}"


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_goes_on_from_changelogs_of_kafka_streams(
    on_kafka: Callable[[Scenario, str], Outcome], scenario: Scenario, cache: str
) -> None:
    """They come without facts; what the task remembers, such as stream time, is that of Headrace at the same point."""
    run = in_one_go(scenario, cache)
    kafka = on_kafka(scenario, cache)
    is_exception = str(scenario) in EXCEPTIONS[cache]
    for cut in run.cuts():
        if is_exception:
            expected = run.go_on(cut, run.kept(cut), as_users_see_stores=True)
        else:
            expected = replace(rest_of(kafka, cut), stores=run.outcome.stores)
        for compacted in (False, True):
            state = run.rebuilt(cut, kafka.produced, with_facts=False, compacted=compacted)
            actual = run.go_on(cut, state, as_users_see_stores=is_exception)
            # Facts that only tombstones tell, such as the number of the last duplicate, are lost with them, and can
            # be seen in keys of changelogs and stores.
            view = _outputs if compacted else _without_traces
            found = compare(view(expected), view(actual), scenario.inputs[cut:])
            assert found is None, f"after {cut} events, {'compacted' if compacted else 'whole'}: {found}"


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("scenario", [one for one in SCENARIOS if str(one) in EXCEPTIONS["cached"]], ids=str)
def test_exceptions_are_needed(scenario: Scenario, cache: str) -> None:
    run = in_one_go(scenario, cache)
    differs = any(
        compare(run.rest(cut), run.go_on(cut, run.kept(cut)), scenario.inputs[cut:]) is not None for cut in run.cuts()
    )
    assert differs == (str(scenario) in EXCEPTIONS[cache])


def _without_traces(outcome: Outcome) -> Outcome:
    return replace(outcome, traced=[], printed=[])


def _outputs(outcome: Outcome) -> Outcome:
    """What is written to topics other than changelogs."""
    outputs = [
        {topic: records for topic, records in event.items() if not topic.endswith("-changelog")}
        for event in outcome.produced
    ]
    return Outcome(produced=outputs, failure=outcome.failure)
