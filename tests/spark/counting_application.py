"""An application in a process of its own: `python -m tests.spark.counting_application SETTINGS`.

SETTINGS is JSON: servers, state_dir and application_id; with goes_on, what fails is started again, and with
brings_spark, the context is the program's own. At each line of standard input it processes all there is.
"""

from __future__ import annotations

import json
import sys

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
    settings = json.loads(sys.argv[1])
    config = StreamsConfig(
        application_id=settings["application_id"],
        bootstrap_servers=settings["servers"],
        state_dir=settings["state_dir"],
        num_stream_threads=2,
        cache_max_bytes=0,
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
