"""An application in a process of its own: `python -m tests.spark.counting_application SETTINGS`.

SETTINGS is JSON, or @ and the path of a file with it: servers, state_dir and application_id, and settings for Spark and
Kafka; with goes_on, what fails is started again, and with brings_spark, the context is the program's own. At each line
of standard input it processes all there is.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from headrace import REPLACE_THREAD, Consumed, Produced, Serdes, Streams, StreamsBuilder, StreamsConfig, Topology
from headrace.spark.session import make_context


def topology(application_id: str) -> Topology:
    """Counts the records of each key; every count is written."""
    text, number = Serdes.string(), Serdes.long()
    builder = StreamsBuilder()
    records = builder.stream(f"{application_id}.in", Consumed(key=text, value=text))
    records.group_by_key().count("counts").to_stream().to(f"{application_id}.out", Produced(key=text, value=number))
    return builder.build()


def main() -> None:
    given = sys.argv[1]
    settings = json.loads(Path(given[1:]).read_text() if given.startswith("@") else given)
    config = StreamsConfig(
        application_id=settings["application_id"],
        bootstrap_servers=settings["servers"],
        state_dir=settings["state_dir"],
        num_stream_threads=2,
        cache_max_bytes=0,
        spark=settings.get("spark", {}),
        kafka=settings.get("kafka", {}),
    )
    if settings.get("brings_spark"):
        make_context("mine", settings={})
    application = Streams(topology(settings["application_id"]), config)
    if settings.get("goes_on"):
        application.set_uncaught_exception_handler(lambda error: REPLACE_THREAD)
    with application:
        for _ in sys.stdin:
            application.process_all_available()
            print("done", flush=True)


if __name__ == "__main__":
    main()
