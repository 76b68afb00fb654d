"""Random topologies and records on both sides; a difference is shrunk to the smallest case.

The suite tries the same examples each time. HEADRACE_EXPLORE=n, as in `make explore`, tries n new ones.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from py4j.java_gateway import JavaGateway

from tests.oracle.parity import CACHES, difference
from tests.oracle.random_topologies import INPUTS, STREAM_OPERATORS, TABLE_OPERATORS, Step, build
from tests.oracle.scenario import Pipe, Scenario, pipe

EXPLORED = int(os.environ.get("HEADRACE_EXPLORE", "0"))

STEPS = st.builds(
    Step,
    operator=st.sampled_from(sorted({*STREAM_OPERATORS, *TABLE_OPERATORS})),
    variant=st.integers(0, 2),
    size=st.sampled_from([10, 1, 5, 20]),
    grace=st.sampled_from([0, 5, 100]),
)
EVENTS = st.builds(
    pipe,
    topic=st.sampled_from(["in", "in", "in", *INPUTS]),
    key=st.sampled_from(["a", "b", "x", None]),
    value=st.sampled_from(["x", "y", "z", "xy", None]),
    timestamp=st.integers(0, 60),
    headers=st.sampled_from([(), (("h", b"1"),)]),
)


def test_random_topologies_agree(gateway: JavaGateway) -> None:
    # The gateway is no argument of `check`: hypothesis would print it, and py4j cannot take part in that.
    @settings(
        max_examples=EXPLORED or 250,
        derandomize=not EXPLORED,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        print_blob=True,
    )
    @given(
        steps=st.lists(STEPS, min_size=1, max_size=5),
        events=st.lists(EVENTS, min_size=1, max_size=20),
        cache=st.sampled_from(sorted(CACHES)),
    )
    def check(steps: list[Step], events: list[Pipe], cache: str) -> None:
        scenario = Scenario("random", ", ".join(map(str, steps)), lambda b: build(b, steps), events)
        found = difference(gateway, scenario, CACHES[cache])
        for line in (*map(str, steps), *map(str, events)):
            note(line)
        assert found is None, found

    check()
