"""`python -m tests.oracle.report`: every operator and scenario, agreed or differs; the count comes last.

--verbose       shows each difference
--only TEXT     only scenarios whose name contains the text
--kafka-only    shows what Kafka Streams does, without Headrace
"""

from __future__ import annotations

import argparse
import logging
import sys
import time

from py4j.java_gateway import JavaGateway

from tests.oracle.gateway import kafka_streams_gateway
from tests.oracle.kafka_side import run_on_kafka
from tests.oracle.parity import CACHES, difference
from tests.oracle.scenario import Scenario, all_scenarios


def main() -> int:
    """Prints the report; 0 where everything agrees."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.report")
    parser.add_argument("--verbose", "-v", action="store_true", help="show each difference")
    parser.add_argument("--only", default="", help="only scenarios whose name contains this")
    parser.add_argument("--kafka-only", action="store_true", help="show what Kafka Streams does, without Headrace")
    options = parser.parse_args()
    logging.disable()
    scenarios = [one for one in all_scenarios() if options.only.lower() in str(one).lower()]
    with kafka_streams_gateway() as gateway:
        if options.kafka_only:
            return _show(gateway, scenarios)
        return _compare(gateway, scenarios, options.verbose)


def _compare(gateway: JavaGateway, scenarios: list[Scenario], verbose: bool) -> int:
    agreed = 0
    columns = (
        max((len(one.operator) for one in scenarios), default=0),
        max((len(one.case) for one in scenarios), default=0),
    )
    for scenario in sorted(scenarios, key=lambda one: one.operator):
        for cache, size in CACHES.items():
            try:
                found = difference(gateway, scenario, size)
            except Exception as error:
                found = f"{type(error).__name__}: {error}"
            agreed += found is None
            verdict = "agreed" if found is None else "differs"
            print(f"{scenario.operator:{columns[0]}}  {scenario.case:{columns[1]}}  {cache:8}  {verdict}", flush=True)
            if found is not None and verbose:
                print("    " + found.replace("\n", "\n    "))
    total = len(scenarios) * len(CACHES)
    print(f"parity {agreed} of {total}")
    return 0 if agreed == total else 1


def _show(gateway: JavaGateway, scenarios: list[Scenario]) -> int:
    for scenario in scenarios:
        for cache, size in CACHES.items():
            started = time.monotonic()
            try:
                outcome = run_on_kafka(gateway, scenario, size)
            except Exception as error:
                print(f"=== {scenario} ({cache}) broke: {error}")
                continue
            print(f"=== {scenario} ({cache}, {1000 * (time.monotonic() - started):.0f} ms)")
            if cache == "cached":
                print(outcome.description)
            for event, produced in zip(scenario.inputs, outcome.produced, strict=False):
                print(f"  {event}")
                for topic, records in produced.items():
                    for record in records:
                        print(f"      {topic}: {record}")
            for what in ("stores", "traced", "printed", "failure"):
                if getattr(outcome, what):
                    print(f"  {what}: {getattr(outcome, what)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
