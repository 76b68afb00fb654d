"""The figures as a table and as JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.display import Display
from benchmarks.driver import Workload as DriverWorkload
from benchmarks.race import FROM_START_TARGET, Figures, Run, Size
from benchmarks.service import Figure
from benchmarks.small_batches import STATE_RECORDS, TINY_RECORDS, OnState, Tiny
from benchmarks.stand import AT_LEAST_ONCE, HEADRACE
from benchmarks.task import Figure as TaskFigure
from benchmarks.task import lines as task_lines

MISSED = "  missed"


@dataclass
class Report:
    """Everything that was measured."""

    size: Size
    races: list[Figures] = field(default_factory=list)
    on_state: list[OnState] = field(default_factory=list)
    tiny: list[Tiny] = field(default_factory=list)
    service: list[Figure] = field(default_factory=list)
    driver: list[tuple[DriverWorkload, float]] = field(default_factory=list)
    task: list[TaskFigure] = field(default_factory=list)

    @property
    def differences(self) -> list[str]:
        """Where results differ."""
        return [difference for figures in self.races for difference in figures.differences]

    def write(self, path: Path) -> None:
        """Writes it as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self._as_json(), indent=2) + "\n")

    def show(self, display: Display) -> None:
        """Prints it for people."""
        for part in (_races, _guarantees, _on_state, _tiny, _service, _driver, _task):
            lines = part(self)
            if lines:
                display.say()
            for line in lines:
                display.say(line)

    def _as_json(self) -> dict[str, Any]:
        return {
            "machine": {"cores": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()},
            "size": asdict(self.size),
            "workloads": {figures.workload.name: _race_as_json(figures) for figures in self.races},
            "batch_on_state": [asdict(each) for each in self.on_state],
            "tiny_batches": [asdict(each) for each in self.tiny],
            "service": [{**asdict(each), "is_met": each.is_met} for each in self.service],
            "driver": {
                workload.name: {"records_per_second": round(rate), "target": workload.target}
                for workload, rate in self.driver
            },
            "task": [asdict(each) for each in self.task],
        }


def _race_as_json(figures: Figures) -> dict[str, Any]:
    return {
        "records": figures.records,
        "results_equal": not figures.differences,
        "ratio": figures.ratio,
        "ratio_target": figures.workload.target,
        "ratio_from_start": figures.ratio_from_start,
        "ratio_from_start_target": FROM_START_TARGET,
        "runs": {contender: [asdict(run) for run in runs] for contender, runs in figures.runs.items()},
        "differences": figures.differences,
    }


# --- the tables ----------------------------------------------------------------------------------------------------

_COLUMNS: Sequence[tuple[str, Callable[[Run], float | None]]] = (
    ("records/s", lambda run: run.rate),
    ("from start", lambda run: run.rate_from_start),
    ("seconds", lambda run: run.seconds),
    ("CPU s", lambda run: run.cpu_seconds),
    ("broker CPU s", lambda run: run.broker_cpu_seconds),
    ("peak MB", lambda run: run.peak_mb),
)


def _races(report: Report) -> list[str]:
    if not report.races:
        return []
    size = report.size
    lines = [
        f"Medians of {size.rounds}, {os.cpu_count()} cores. records/s: after the first quarter of the records",
        _row("workload", "contender", *(name for name, _ in _COLUMNS)),
    ]
    for figures in report.races:
        for contender in figures.runs:
            cells = [_number(figures.median(contender, of)) for _, of in _COLUMNS]
            lines.append(_row(f"{figures.workload.name} ({figures.records:,})", contender, *cells))
    lines += ["", f"{'ratio to Kafka Streams':<24}{'value':>8}{'target':>8}{'from start':>14}{'target':>8}"]
    for figures in report.races:
        lines.append(_ratio_line(figures))
    return lines


def _ratio_line(figures: Figures) -> str:
    if figures.differences:
        return f"{figures.workload.name:<24}  results differ: {'; '.join(figures.differences)}"
    if figures.ratio_from_start is None:
        return f"{figures.workload.name:<24}  only one contender ran"
    target = figures.workload.target
    missed = [
        name
        for name, value, wanted in (
            ("", figures.ratio, target),
            (" from start", figures.ratio_from_start, FROM_START_TARGET),
        )
        if value is None or value < wanted
    ]
    shown = f"{ratio_text(figures.ratio):>8}{target:>8}{ratio_text(figures.ratio_from_start):>14}{FROM_START_TARGET:>8}"
    return f"{figures.workload.name:<24}{shown}" + "".join(f"{MISSED}{name}" for name in missed)


def _guarantees(report: Report) -> list[str]:
    lines = []
    for figures in report.races:
        once, at_least = (figures.median(name, lambda run: run.rate) for name in (HEADRACE, AT_LEAST_ONCE))
        if once is not None and at_least is not None:
            lines.append(f"{figures.workload.name:<24}{once:>14,.0f}{at_least:>16,.0f}{once / at_least:>8.2f}")
    return [f"{'records/s':<24}{'exactly once':>14}{'at least once':>16}{'ratio':>8}", *lines] if lines else []


def _on_state(report: Report) -> list[str]:
    lines = [f"{each.keys:>12,}{each.median_ms:>12,.0f}{each.rss_mb:>10,.0f}" for each in report.on_state]
    head = [f"The same {STATE_RECORDS:,} records on more and more state", f"{'keys':>12}{'batch ms':>12}{'MB':>10}"]
    return [*head, *lines] if lines else []


def _tiny(report: Report) -> list[str]:
    lines = []
    for each in report.tiny:
        lines.append(f"{each.batches:,} batches of {TINY_RECORDS} records, {each.topology}: the first and last tenth")
        lines.append(f"{'':<8}{'median ms':>12}{'target':>8}{'p99 ms':>10}{'MB':>10}{'disk MB':>10}")
        for name, part in (("first", each.first), ("last", each.last)):
            missed = "" if part.median_ms < each.target_ms else MISSED
            figures = f"{part.p99_ms:>10,.0f}{part.rss_mb:>10,.0f}{part.disk_mb:>10,.1f}"
            lines.append(f"{name:<8}{part.median_ms:>12,.0f}{each.target_ms:>8}{figures}{missed}")
    return lines


def _service(report: Report) -> list[str]:
    lines = [
        f"{each.name:<40}{each.value:>12,.1f}{each.target:>12,} {each.unit:<10}{'' if each.is_met else MISSED}".rstrip()
        for each in report.service
    ]
    return [f"{'service':<40}{'value':>12}{'target':>12}", *lines] if lines else []


def _driver(report: Report) -> list[str]:
    lines = [
        f"{workload.name:<24}{rate:>12,.0f}{workload.target:>12,}{'' if rate >= workload.target else MISSED}"
        for workload, rate in report.driver
    ]
    return [f"{'test driver, one core':<24}{'records/s':>12}{'target':>12}", *lines] if lines else []


def _row(workload: str, contender: str, *cells: str) -> str:
    return f"{workload:<24}{contender:<24}" + "".join(f"{cell:>14}" for cell in cells)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def ratio_text(value: float | None) -> str:
    """A ratio as it is printed; one that could not be taken has a dash."""
    return "-" if value is None else f"{value:.2f}"


def _task(report: Report) -> list[str]:
    return task_lines(report.task) if report.task else []
