"""An application of scenarios that is killed at a commit: `python -m tests.spark.mortal_application SETTINGS`.

SETTINGS is JSON: scenarios (their names), servers, state_dir, application_id. For each line of standard input it
processes everything there is; the lines `before` and `after` have it killed on the way, before or after the commit.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from headrace import Streams
from headrace.spark import commit
from tests.oracle.scenario import all_scenarios
from tests.spark.running import ScenariosOnSpark

BEFORE = "before"
AFTER = "after"


class MortalProducer(Producer):
    """A producer whose process is killed before or after it commits."""

    doom = ""

    def commit_transaction(self, *arguments: Any) -> None:
        if self.doom == BEFORE:
            os.kill(os.getpid(), signal.SIGKILL)
        super().commit_transaction(*arguments)
        if self.doom == AFTER:
            os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    settings = json.loads(sys.argv[1])
    scenarios = {str(scenario): scenario for scenario in all_scenarios()}
    together = ScenariosOnSpark(
        [scenarios[name] for name in settings["scenarios"]],
        settings["servers"],
        Path(settings["state_dir"]),
        1,
        settings["application_id"],
    )
    setattr(commit, "Producer", MortalProducer)  # noqa: B010
    with Streams(together.topology, together.config) as application:
        for line in sys.stdin:
            MortalProducer.doom = line.strip()
            application.process_all_available()
            print("done", flush=True)


if __name__ == "__main__":
    main()
