"""`python -m benchmarks`: measures, prints tables, and writes the figures as JSON."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import FrameType

from benchmarks import ceiling, driver, growth, latency, recovery, task
from benchmarks.contenders.application import CONTENDERS, RIVALS
from benchmarks.display import Display
from benchmarks.parts import PARTS, RACES, SINGLE, Measure, race
from benchmarks.race import WORKLOADS, Size
from benchmarks.report import Report
from benchmarks.stand import set_up
from benchmarks.tables import last_lines, show

REPORT = Path("build") / "bench.json"

FULL = Size(records=3_000_000, different=1_000_000, rounds=3)
# So few records would go in one batch: there have to be some, to see a rate.
QUICK = Size(records=240_000, different=120_000, rounds=1, batch_records=40_000)


def main() -> int:
    """Measures what was asked for; 1 if results differ, or something could not be measured."""
    options = _options()
    signal.signal(signal.SIGTERM, _leave)
    display = Display()
    report = Report(_size(options))
    parts = options.part or (("race",) if options.quick else PARTS)
    if chosen := _chosen(parts):
        with set_up(display) as stand:
            for name, measure in chosen:
                with report.attempt(name):
                    measure(stand, report, options)
                report.write(options.report)
    if "driver" in parts:
        for workload in driver.WORKLOADS:
            with display.task(f"The test driver: {workload.name}"):
                report.driver.append((workload, driver.measure(workload)))
        report.write(options.report)
    if "task" in parts:
        for each in task.WORKLOADS:
            with display.task(f"A record inside a task: {each.name}"):
                report.task.append(task.measure(each))
        report.write(options.report)
    show(report, display)
    display.say(f"\nwritten to {options.report}")
    for difference in report.differences:
        print(f"results differ: {difference}", file=sys.stderr)
    for failure in report.failures:
        print(f"not measured: {failure}", file=sys.stderr)
    sys.stderr.flush()
    for line in last_lines(report):
        print(line, flush=True)
    return 1 if report.differences or report.failures else 0


def _chosen(parts: Sequence[str]) -> list[tuple[str, Measure]]:
    """The parts that need Kafka, in order; those that race are one."""
    racing = [name for name in RACES if name in parts]
    chosen: list[tuple[str, Measure]] = [(name, SINGLE[name]) for name in SINGLE if name in parts]
    return [(", ".join(racing), partial(race, parts=racing)), *chosen] if racing else chosen


def _leave(number: int, frame: FrameType | None) -> None:
    """Ends as if by itself, so that contenders and broker end too."""
    sys.exit(128 + number)


def _size(options: argparse.Namespace) -> Size:
    default = QUICK if options.quick else FULL
    return Size(
        records=options.records or default.records,
        different=options.records or default.different,
        rounds=options.rounds or default.rounds,
        batch_records=options.batch_records or default.batch_records,
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Compares Headrace with Kafka Streams.")
    names = [workload.name for workload in WORKLOADS]
    parser.add_argument("--quick", action="store_true", help="fewer records, one round, the race alone")
    parser.add_argument("--part", action="append", choices=PARTS, help="measure this part; all by default")
    parser.add_argument("--workload", action="append", choices=names, help="run this workload; all by default")
    parser.add_argument("--only", action="append", choices=(*CONTENDERS, *RIVALS), help="let only this contender run")
    parser.add_argument("--records", type=int, help="how many records each workload has")
    parser.add_argument("--rounds", type=int, help="how often each contender runs")
    parser.add_argument("--batch-records", type=int, help="how many records a batch of Headrace's has at most")
    parser.add_argument("--batches", type=int, default=1_000, help="how many tiny batches there are")
    parser.add_argument("--seconds", type=float, default=latency.SECONDS, help="how long latency and idle cost run")
    parser.add_argument("--growth-records", type=int, default=growth.RECORDS, help="records of the one long run")
    parser.add_argument("--growth-keys", type=int, default=growth.KEYS[-1], help="keys of the largest state")
    parser.add_argument("--ceiling-records", type=int, default=ceiling.RECORDS, help="records with many results each")
    parser.add_argument("--recovery-keys", type=int, default=recovery.KEYS, help="keys of the state that is recovered")
    parser.add_argument("--report", type=Path, default=REPORT, help="where the figures go")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
