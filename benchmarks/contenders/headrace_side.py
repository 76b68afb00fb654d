"""Headrace as a process of its own: runs a topology until it is killed, and notes each batch in a file."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from benchmarks.contenders.topologies import TOPOLOGIES
from headrace import Streams, StreamsConfig


def main() -> None:
    options = _options()
    topology = TOPOLOGIES[options.topology](*options.sources, options.output)
    config = StreamsConfig(
        application_id=options.application_id,
        bootstrap_servers=options.servers,
        state_dir=options.state_dir,
        processing_guarantee=options.guarantee,
        spark={} if options.batch_records is None else {"maxOffsetsPerTrigger": options.batch_records},
    )
    app = Streams(topology, config)
    with Path(options.batches).open("w", buffering=1) as batches:

        def note(progress: Any) -> None:
            facts = {"time": time.time(), "records": progress.records, "seconds": round(progress.seconds, 4)}
            rebuilt = {"rebuilt": progress.rebuilt_records, "rebuild_seconds": progress.rebuild_seconds}
            batches.write(json.dumps(facts | rebuilt) + "\n")

        app.on_progress(note)
        app.start()
        app.wait()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sources", required=True, nargs="+")
    for name in ("--topology", "--output", "--servers", "--application-id", "--state-dir", "--batches"):
        parser.add_argument(name, required=True)
    parser.add_argument("--guarantee", default=StreamsConfig.processing_guarantee)
    parser.add_argument("--batch-records", type=int)
    return parser.parse_args()


if __name__ == "__main__":
    main()
