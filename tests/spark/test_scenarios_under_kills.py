"""Scenarios whose process is killed in the middle: the same results as the driver's, which is never killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.kafka.embedded import EmbeddedKafka
from tests.oracle.scenario import all_scenarios
from tests.spark.mortal_application import AFTER, BEFORE
from tests.spark.running import ScenariosOnSpark, this_hour
from tests.spark.test_scenarios import compare

SCENARIOS = (
    "stream-stream outer_join: null results wait for grace",
    "suppress until window closes: exactly at the end of grace",
    "session: the exact edge of grace",
    "foreign-key left_join: a table with itself",
    "KGroupedTable.aggregate: to null",
)
KILLS = {3: BEFORE, 6: AFTER}
"""By round, when the process is killed."""


@pytest.fixture
def together(embedded_kafka: EmbeddedKafka, tmp_path: Path) -> ScenariosOnSpark:
    known = {str(scenario): scenario for scenario in all_scenarios()}
    chosen = [this_hour(known[name]) for name in SCENARIOS]
    return ScenariosOnSpark(chosen, embedded_kafka.bootstrap_servers, tmp_path, 1)


def test_killed_scenarios_give_the_drivers_result(together: ScenariosOnSpark, tmp_path: Path) -> None:
    together.make_topics()
    rounds = iter(range(together.rounds()))
    for last in (*KILLS, None):
        with process(together, tmp_path) as running:
            # What the process before it was at when it was killed is done first.
            assert tell(running, "go")
            for number in rounds:
                together.pipe(number)
                if number == last:
                    assert not tell(running, KILLS[number])
                    assert running.wait(60) == -signal.SIGKILL
                    break
                assert tell(running, "go")
    results = together.results()
    for name, expected in together.expected.items():
        difference = compare(expected, results[name])
        assert difference is None, f"{name}: {difference}"


@contextmanager
def process(together: ScenariosOnSpark, state_dir: Path) -> Iterator[subprocess.Popen[str]]:
    """The application in a process of its own."""
    settings = {
        "scenarios": [str(guest.scenario) for guest in together.guests],
        "servers": together.config.bootstrap_servers,
        "state_dir": str(state_dir),
        "application_id": together.application_id,
    }
    command = [sys.executable, "-m", "tests.spark.mortal_application", json.dumps(settings)]
    with (
        (state_dir / "errors.log").open("ab") as errors,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as application,
    ):
        try:
            yield application
        finally:
            if application.poll() is None:
                assert application.stdin is not None
                application.stdin.close()


def tell(application: subprocess.Popen[str], line: str) -> bool:
    """Has the application process everything; False if it was killed on the way."""
    assert application.stdin is not None and application.stdout is not None
    application.stdin.write(f"{line}\n")
    application.stdin.flush()
    return any(answer == "done\n" for answer in application.stdout)
