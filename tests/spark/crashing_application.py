"""An application that kills itself at a given moment: `python -m tests.spark.crashing_application SETTINGS`.

SETTINGS is JSON: servers, state_dir, application_id, and, to be killed, a phase. It takes lines of standard input:
`all` has it process everything, after `arm` the next batch is its last.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

from headrace import Consumed, Produced, Serdes, Streams, StreamsBuilder, StreamsConfig, Topology
from headrace.spark.checkpoint import StateFiles
from headrace.spark.commit import TransactionalCommitter
from headrace.spark.query import BatchRunner

PHASES = ("after-prepare", "before-commit", "after-commit", "after-batch")


def topology(application_id: str) -> Topology:
    """Counts the records of each key; every count is written."""
    text, number = Serdes.string(), Serdes.long()
    builder = StreamsBuilder()
    records = builder.stream(f"{application_id}.in", Consumed(key=text, value=text))
    records.group_by_key().count("counts").to_stream().to(f"{application_id}.out", Produced(key=text, value=number))
    return builder.build()


class Doom:
    """Kills this process when a batch gets to the phase, once it is armed."""

    def __init__(self, phase: str) -> None:
        self._phase = phase
        self.armed = False
        prepare, commit, run = StateFiles.prepare, TransactionalCommitter.commit, BatchRunner.run

        def prepare_and_die(files: StateFiles, *arguments: Any) -> Any:
            manifest = prepare(files, *arguments)
            self._die_at("after-prepare")
            return manifest

        def commit_and_die(committer: TransactionalCommitter, outputs: Any, *arguments: Any) -> None:
            if self.armed and phase == "before-commit":
                committer._producer.begin_transaction()
                for output in outputs:
                    committer._producer.produce(output.topic, output.value, output.key)
                committer._producer.flush()
            self._die_at("before-commit")
            commit(committer, outputs, *arguments)
            self._die_at("after-commit")

        def run_and_die(runner: BatchRunner, *arguments: Any) -> None:
            run(runner, *arguments)
            self._die_at("after-batch")

        for owner, function in (
            (StateFiles, prepare_and_die),
            (TransactionalCommitter, commit_and_die),
            (BatchRunner, run_and_die),
        ):
            setattr(owner, function.__name__.removesuffix("_and_die"), function)

    def _die_at(self, phase: str) -> None:
        if self.armed and phase == self._phase:
            os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    settings = json.loads(sys.argv[1])
    config = StreamsConfig(
        application_id=settings["application_id"],
        bootstrap_servers=settings["servers"],
        state_dir=settings["state_dir"],
        num_stream_threads=2,
        cache_max_bytes=0,
    )
    doom = Doom(settings["phase"]) if "phase" in settings else None
    with Streams(topology(settings["application_id"]), config) as application:
        for line in sys.stdin:
            if line == "arm\n" and doom is not None:
                doom.armed = True
            else:
                application.process_all_available()
            print(f"done {line.strip()}", flush=True)


if __name__ == "__main__":
    main()
