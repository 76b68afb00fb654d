"""Everything that was measured, as JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException

from benchmarks.ceiling import Ceiling
from benchmarks.driver import Workload as DriverWorkload
from benchmarks.growth import Growth
from benchmarks.idle import Idle
from benchmarks.latency import Latency
from benchmarks.race import FROM_START_TARGET, Figures, Size
from benchmarks.recovery import Recovery
from benchmarks.service import Figure
from benchmarks.task import Figure as TaskFigure
from benchmarks.tiny import Tiny
from headrace.errors import HeadraceError


@dataclass
class Report:
    """Everything that was measured."""

    size: Size
    races: list[Figures] = field(default_factory=list)
    latency: list[Latency] = field(default_factory=list)
    tiny: list[Tiny] = field(default_factory=list)
    growth: list[Growth] = field(default_factory=list)
    ceiling: list[Ceiling] = field(default_factory=list)
    recovery: list[Recovery] = field(default_factory=list)
    idle: list[Idle] = field(default_factory=list)
    service: list[Figure] = field(default_factory=list)
    driver: list[tuple[DriverWorkload, float]] = field(default_factory=list)
    task: list[TaskFigure] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    """What could not be measured, and why."""

    @property
    def differences(self) -> list[str]:
        """Where results differ."""
        return [difference for figures in self.races for difference in figures.differences]

    @contextmanager
    def attempt(self, name: str) -> Iterator[None]:
        """Notes that something could not be measured, and goes on: the rest takes hours."""
        try:
            yield
        except (RuntimeError, KafkaException, HeadraceError) as error:
            self.failures.append(f"{name}: {error}")

    def write(self, path: Path) -> None:
        """Writes it as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self._as_json(), indent=2) + "\n")

    def _as_json(self) -> dict[str, Any]:
        return {
            "machine": {"cores": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()},
            "size": asdict(self.size),
            "workloads": {figures.workload.name: _race(figures) for figures in self.races},
            "latency": {each.case.name: _latency(each) for each in self.latency},
            "tiny_batches": [asdict(each) for each in self.tiny],
            "growth": [{**asdict(each), "ratio": each.ratio} for each in self.growth],
            "ceiling": [asdict(each) for each in self.ceiling],
            "recovery": [_recovery(each) for each in self.recovery],
            "idle": [asdict(each) for each in self.idle],
            "service": [{**asdict(each), "is_met": each.is_met} for each in self.service],
            "driver": {
                workload.name: {"records_per_second": round(rate), "target": workload.target}
                for workload, rate in self.driver
            },
            "task": [asdict(each) for each in self.task],
            "failures": self.failures,
        }


def _race(figures: Figures) -> dict[str, Any]:
    return {
        "records": figures.records,
        "results_equal": not figures.differences,
        "ratio": figures.ratio,
        "ratio_target": figures.workload.target,
        "ratio_from_start": figures.ratio_from_start,
        "ratio_from_start_target": FROM_START_TARGET,
        "runs": {contender: [asdict(run) for run in runs] for contender, runs in figures.runs.items()},
        "differences": figures.differences,
        "rivals": {rival: asdict(each) for rival, each in figures.rivals.items()},
    }


def _latency(latency: Latency) -> dict[str, Any]:
    return {**asdict(latency), "p50_ratio": latency.p50_ratio, "p99_ratio": latency.p99_ratio}


def _recovery(recovery: Recovery) -> dict[str, Any]:
    return {
        "keys": recovery.keys,
        "rebuild_rate_per_core": recovery.rebuild_rate,
        "cases": {
            case.name: {
                "ratio": recovery.ratio(case),
                "restarts": {name: [asdict(each) for each in restarts] for name, restarts in by_contender.items()},
            }
            for case, by_contender in recovery.restarts.items()
        },
    }
