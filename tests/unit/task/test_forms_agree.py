"""Random topologies and records in all forms of a task: compiled or not, with objects until the commit or bytes.

The oracle commits after each record, as Kafka Streams' driver does; here updates wait in caches of all sizes.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace import Serdes, StreamsBuilder, StreamsConfig
from headrace.errors import ConfigError, TopologyError
from headrace.state import timestamped
from headrace.task.compiled.setting import VARIABLE, Compilation
from headrace.task.defaults import check_serdes
from headrace.testing import TopologyTestDriver
from tests.oracle.random_topologies import build
from tests.oracle.scenario import Pipe, start_trace, traced
from tests.oracle.test_random_topologies import EVENTS, STEPS


@settings(max_examples=120, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    steps=st.lists(STEPS, min_size=1, max_size=4),
    events=st.lists(EVENTS, min_size=1, max_size=30),
    cache=st.sampled_from([200, 600, 2_000, 10_000_000]),
    commit=st.sampled_from([2, 7, 1_000]),
)
def test_all_forms_agree(steps: list[Any], events: list[Pipe], cache: int, commit: int) -> None:
    plain = _run(steps, events, cache, commit, Compilation.NEVER, with_objects=False)
    for form in (Compilation.ALWAYS, Compilation.NEVER):
        assert _run(steps, events, cache, commit, form, with_objects=True) == plain


def _run(
    steps: list[Any], events: list[Pipe], cache: int, commit: int, form: Compilation, *, with_objects: bool
) -> list[Any]:
    start_trace()
    seen: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, form.value)
        if not with_objects:
            patch.setattr(timestamped, "plain_form", lambda serialize: None)
        builder = StreamsBuilder()
        try:
            build(builder, steps)
            topology = builder.build()
            check_serdes(topology, StreamsConfig())
        except (TopologyError, ConfigError):
            return []
        config = StreamsConfig(application_id="app", cache_max_bytes=cache)
        with TopologyTestDriver(topology, config, initial_wall_clock=0, commit=commit) as driver:
            for event in events:
                queue = driver._task.queue_of(event.topic)
                if queue is None and driver._task.global_queue_of(event.topic) is None:
                    continue
                try:
                    driver.input_topic(event.topic, Serdes.bytes(), Serdes.bytes()).pipe(
                        event.key, event.value, event.timestamp, list(event.headers)
                    )
                except Exception as error:
                    seen.append((type(error), str(error)))
                    return [*seen, driver.produced(), traced()]
            driver.commit()
            seen += [driver.produced(), driver.dropped_records, traced(), driver._task.snapshot()]
    return seen
