"""`python -m benchmarks`: measures, prints tables, and writes the figures as JSON."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from types import FrameType

from benchmarks import ceiling, driver, growth, idle, latency, recovery, service, tiny
from benchmarks.contenders.application import AT_LEAST_ONCE, CONTENDERS, HEADRACE, RIVALS
from benchmarks.display import Display
from benchmarks.race import WORKLOADS, Size, Workload, compete, load
from benchmarks.report import Report
from benchmarks.stand import Stand, set_up
from benchmarks.tables import last_lines, show

REPORT = Path("build") / "bench.json"

FULL = Size(records=3_000_000, different=1_000_000, rounds=3)
# So few records would go in one batch: there have to be some, to see a rate.
QUICK = Size(records=240_000, different=120_000, rounds=1, batch_records=40_000)
RACES = ("race", "rivals", "guarantees")
PARTS = (*RACES, "latency", "tiny", "growth", "ceiling", "recovery", "idle", "service", "driver")
GUARANTEE_WORKLOADS = ("stateless", "keys-1k")


def main() -> int:
    """Measures what was asked for; 1 if results differ."""
    options = _options()
    signal.signal(signal.SIGTERM, _leave)
    display = Display()
    report = Report(_size(options))
    parts = options.part or (("race",) if options.quick else PARTS)
    if set(parts) - {"driver"}:
        with set_up(display) as stand:
            _measure(stand, report, parts, options)
    if "driver" in parts:
        for workload in driver.WORKLOADS:
            with display.task(f"The test driver: {workload.name}"):
                report.driver.append((workload, driver.measure(workload)))
    report.write(options.report)
    show(report, display)
    display.say(f"\nwritten to {options.report}")
    for difference in report.differences:
        print(f"results differ: {difference}", file=sys.stderr)
    sys.stderr.flush()
    for line in last_lines(report):
        print(line, flush=True)
    return 1 if report.differences else 0


def _leave(number: int, frame: FrameType | None) -> None:
    """Ends as if by itself, so that contenders and broker end too."""
    sys.exit(128 + number)


def _measure(stand: Stand, report: Report, parts: tuple[str, ...], options: argparse.Namespace) -> None:
    if set(RACES) & set(parts):
        _race(stand, report, parts, options)
    if "latency" in parts:
        _latency(stand, report, options)
    if "tiny" in parts:
        for case in tiny.CASES:
            report.tiny.append(tiny.measure(stand, case, options.batches))
    if "growth" in parts:
        report.growth.append(growth.of_records(stand, options.growth_records))
        report.growth.append(growth.of_partitions(stand))
        report.growth.append(growth.of_keys(stand, options.growth_keys))
    if "ceiling" in parts:
        report.ceiling.append(ceiling.measure(stand, options.ceiling_records))
    if "recovery" in parts:
        report.recovery.append(recovery.measure(stand, options.recovery_keys, options.rounds or recovery.ROUNDS))
    if "idle" in parts:
        report.idle.extend(idle.measure(stand, options.seconds))
    if "service" in parts:
        report.service.extend(service.measure(stand))


def _latency(stand: Stand, report: Report, options: argparse.Namespace) -> None:
    contenders, rounds = options.only or CONTENDERS, options.rounds or latency.ROUNDS
    for case in latency.CASES:
        if case.workload in (options.workload or [case.workload]):
            report.latency.append(latency.measure(stand, case, rounds, options.seconds, contenders))


def _race(stand: Stand, report: Report, parts: tuple[str, ...], options: argparse.Namespace) -> None:
    chosen = [each for each in WORKLOADS if each.name in (options.workload or [each.name])]
    contenders = {workload: _contenders(workload, parts, options) for workload in chosen}
    load(stand, report.size, [workload for workload in chosen if contenders[workload]])
    for workload in chosen:
        if contenders[workload]:
            rivals = [name for name in RIVALS if "rivals" in parts and name in (options.only or RIVALS)]
            report.races.append(compete(stand, report.size, workload, contenders[workload], rivals))


def _contenders(workload: Workload, parts: tuple[str, ...], options: argparse.Namespace) -> list[str]:
    """Who runs on a workload: those of the race, and both guarantees of Headrace's where they are compared."""
    chosen = [name for name in CONTENDERS if name in (options.only or CONTENDERS)]
    contenders = chosen if "race" in parts else []
    if "guarantees" in parts and workload.name in GUARANTEE_WORKLOADS:
        contenders += [name for name in (HEADRACE, AT_LEAST_ONCE) if name not in contenders]
    # What rivals write is compared with what Headrace does.
    return contenders or ([HEADRACE] if "rivals" in parts else [])


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
