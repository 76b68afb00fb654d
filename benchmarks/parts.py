"""What can be measured, part by part."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from benchmarks import ceiling, growth, idle, latency, recovery, service, tiny
from benchmarks.contenders.application import AT_LEAST_ONCE, CONTENDERS, HEADRACE, RIVALS
from benchmarks.race import WORKLOADS, Workload, compete, load
from benchmarks.report import Report
from benchmarks.stand import Stand

RACES = ("race", "rivals", "guarantees")
"""Parts that run together, on the same records."""
GUARANTEE_WORKLOADS = ("stateless", "keys-1k")

Measure = Callable[[Stand, Report, argparse.Namespace], None]


def race(stand: Stand, report: Report, options: argparse.Namespace, parts: Sequence[str]) -> None:
    """Rates on records that are all there."""
    chosen = [each for each in WORKLOADS if each.name in (options.workload or [each.name])]
    contenders = {workload: _contenders(workload, parts, options) for workload in chosen}
    load(stand, report.size, [workload for workload in chosen if contenders[workload]])
    for workload in chosen:
        if contenders[workload]:
            rivals = [name for name in RIVALS if "rivals" in parts and name in (options.only or RIVALS)]
            with report.attempt(workload.name):
                report.races.append(compete(stand, report.size, workload, contenders[workload], rivals))


def _contenders(workload: Workload, parts: Sequence[str], options: argparse.Namespace) -> list[str]:
    """Who runs on a workload: those of the race, and both guarantees of Headrace's where they are compared."""
    chosen = [name for name in CONTENDERS if name in (options.only or CONTENDERS)]
    contenders = chosen if "race" in parts else []
    if "guarantees" in parts and workload.name in GUARANTEE_WORKLOADS:
        contenders += [name for name in (HEADRACE, AT_LEAST_ONCE) if name not in contenders]
    # What rivals write is compared with what Headrace does.
    return contenders or ([HEADRACE] if "rivals" in parts else [])


def _latency(stand: Stand, report: Report, options: argparse.Namespace) -> None:
    contenders, rounds = options.only or CONTENDERS, options.rounds or latency.ROUNDS
    cases = [case for case in latency.CASES if case.workload in (options.workload or [case.workload])]
    if cases:
        latency.warm_up(stand, cases[0], contenders)
    for case in cases:
        with report.attempt(f"latency {case.name}"):
            report.latency.append(latency.measure(stand, case, rounds, options.seconds, contenders))


def _tiny(stand: Stand, report: Report, options: argparse.Namespace) -> None:
    for case in tiny.CASES:
        with report.attempt(f"tiny batches, {case.name}"):
            report.tiny.append(tiny.measure(stand, case, options.batches))


def _growth(stand: Stand, report: Report, options: argparse.Namespace) -> None:
    report.growth.append(growth.of_records(stand, options.growth_records))
    report.growth.append(growth.of_partitions(stand))
    report.growth.append(growth.of_keys(stand, options.growth_keys))


def _ceiling(stand: Stand, report: Report, options: argparse.Namespace) -> None:
    report.ceiling.append(ceiling.measure(stand, options.ceiling_records))


def _recovery(stand: Stand, report: Report, options: argparse.Namespace) -> None:
    rounds = options.rounds or recovery.ROUNDS
    measured = recovery.measure(stand, options.recovery_keys, rounds)
    report.recovery.append(measured)
    report.failures += [f"recovery: {problem}" for problem in measured.problems]


def _idle(stand: Stand, report: Report, options: argparse.Namespace) -> None:
    report.idle.extend(idle.measure(stand, options.seconds))


def _service(stand: Stand, report: Report, options: argparse.Namespace) -> None:
    report.service.extend(service.measure(stand))


SINGLE: dict[str, Measure] = {
    "latency": _latency,
    "tiny": _tiny,
    "growth": _growth,
    "ceiling": _ceiling,
    "recovery": _recovery,
    "idle": _idle,
    "service": _service,
}
PARTS = (*RACES, *SINGLE, "driver", "task")
"""The last one needs no Kafka, and is measured when that is gone."""
