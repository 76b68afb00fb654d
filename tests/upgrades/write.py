"""Keeps what this version leaves of the application: `python -m tests.upgrades.write VERSION`.

To be run once for a version, before it is released. What is kept is never written again.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from headrace import Streams, StreamsConfig
from headrace.kafka.clients import ClientSettings
from headrace.kafka.embedded import EmbeddedKafka
from headrace.kafka.topics import Topics, TopicSpec
from headrace.spark.commit_record import CommitRecord, TaskState
from headrace.spark.fingerprint import Fingerprint
from tests.upgrades.application import OUTPUTS, PARTITIONS, inputs, topology
from tests.upgrades.kept import Kept, produce

ROUNDS = 2
LARGE_COMMIT = "large-commit.bin"
LARGE_TASKS = 2_000
"""So many that the commit record is compressed."""


def large_commit() -> bytes:
    """The commit record of an application with many tasks, as it is written."""
    tasks = {f"0_{number}": TaskState(version=f"version {number}", due=number) for number in range(LARGE_TASKS)}
    offsets = {"source": dict.fromkeys(range(LARGE_TASKS), 7)}
    home = Fingerprint({"store": "key-value"}, {"store": 0}, {"0": LARGE_TASKS})
    return CommitRecord(17, "token", offsets, {"source": "id"}, {"changelog": "id"}, tasks, home).pack()


def write(directory: Path, application_id: str) -> Kept:
    """Runs the application and keeps what it leaves in the directory."""
    with tempfile.TemporaryDirectory() as place, EmbeddedKafka(Path(place), port=0) as kafka:
        settings = ClientSettings(kafka.bootstrap_servers)
        sources = {f"{application_id}.{name}": count for name, count in PARTITIONS.items()}
        outputs = {f"{application_id}.{name}": 2 for name in OUTPUTS}
        Topics(settings).create(TopicSpec(name, count) for name, count in {**sources, **outputs}.items())
        config = StreamsConfig(
            application_id=application_id,
            bootstrap_servers=kafka.bootstrap_servers,
            state_dir=f"{place}/state",
            cache_max_bytes=0,
        )
        for number in range(ROUNDS):
            produce(settings, inputs(application_id, number))
            with Streams(topology(application_id), config) as application:
                application.process_all_available()
        kept = Kept.capture(settings, application_id, sources)
    kept.write(directory)
    (directory / LARGE_COMMIT).write_bytes(large_commit())
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.upgrades.write", description=__doc__)
    parser.add_argument("version", help="such as 0.1")
    version = parser.parse_args().version
    directory = Path(__file__).parent / version
    if directory.exists():
        parser.error(f"{directory} exists: what a version has left is not written again")
    kept = write(directory, f"upgraded-{version}")
    size = sum(file.stat().st_size for file in directory.iterdir())
    print(f"{len(kept.records)} records of {len(kept.partitions)} topics, {size:,} bytes in {directory}")


if __name__ == "__main__":
    main()
