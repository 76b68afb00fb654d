"""The figures as tables and as the last lines, for people and for scripts."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from benchmarks import growth, idle, recovery, task, tiny
from benchmarks.contenders.application import AT_LEAST_ONCE, CONTENDERS, GUARANTEES, HEADRACE, KAFKA_STREAMS
from benchmarks.display import Display
from benchmarks.latency import Latency
from benchmarks.race import FROM_START_TARGET, Figures
from benchmarks.report import Report
from benchmarks.run import Run

MISSED = "  missed"


def show(report: Report, display: Display) -> None:
    """Prints a table of each part that was measured."""
    for part in _PARTS:
        lines = part(report)
        if lines:
            display.say()
        for line in lines:
            display.say(line)


def last_lines(report: Report) -> list[str]:
    """The ratios to Kafka Streams, a line each."""
    lines = [
        f"latency {each.case.name} p50 {ratio_text(each.p50_ratio)} p99 {ratio_text(each.p99_ratio)}"
        for each in report.latency
    ]
    for each in report.recovery:
        lines += [f"recovery {case.name} {ratio_text(each.ratio(case))}" for case in each.restarts]
    return lines + [f"ratio {figures.workload.name} {ratio_text(figures.ratio)}" for figures in report.races]


def ratio_text(value: float | None) -> str:
    """A ratio as it is printed; one that could not be taken has a dash."""
    return "-" if value is None else f"{value:.2f}"


# --- the race ------------------------------------------------------------------------------------------------------

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


def _rivals(report: Report) -> list[str]:
    lines = []
    for figures in report.races:
        for name, rival in figures.rivals.items():
            line = f"{figures.workload.name:<16}{name:<16}{GUARANTEES[name]:<16}"
            if rival.run is not None:
                rates = f"{_number(rival.run.rate):>12}{_number(rival.run.rate_from_start):>12}"
                line += f"{rates}{rival.run.cpu_seconds:>8,.0f}{_times(figures, rival.run):>10}"
            lines.append(line + (f"  {rival.problem}" if rival.problem else ""))
    head = f"{'rivals, once':<16}{'contender':<16}{'guarantee':<16}{'records/s':>12}{'from start':>12}{'CPU s':>8}"
    return [f"{head}{'Headrace':>10}", *lines] if lines else []


def _times(figures: Figures, rival: Run) -> str:
    """How many times as fast Headrace is, from the start where there is no rate after the first quarter."""
    ours = figures.median(HEADRACE, lambda run: run.rate)
    if ours is not None and rival.rate is not None:
        return f"{ours / rival.rate:.1f} ×"
    ours = figures.median(HEADRACE, lambda run: run.rate_from_start)
    return "-" if ours is None or not rival.rate_from_start else f"{ours / rival.rate_from_start:.1f} ×"


def _guarantees(report: Report) -> list[str]:
    lines = []
    for figures in report.races:
        once, at_least = (figures.median(name, lambda run: run.rate) for name in (HEADRACE, AT_LEAST_ONCE))
        if once is not None and at_least is not None:
            lines.append(f"{figures.workload.name:<24}{once:>14,.0f}{at_least:>16,.0f}{once / at_least:>8.2f}")
    return [f"{'records/s':<24}{'exactly once':>14}{'at least once':>16}{'ratio':>8}", *lines] if lines else []


def _row(workload: str, contender: str, *cells: str) -> str:
    return f"{workload:<24}{contender:<24}" + "".join(f"{cell:>14}" for cell in cells)


# --- latency, recovery, idle cost ----------------------------------------------------------------------------------


def _latency(report: Report) -> list[str]:
    lines = []
    for each in report.latency:
        for contender in each.runs:
            cells = [
                _number(each.median(contender, lambda run: run.rate)),
                _number(each.median(contender, lambda run: run.p50_ms)),
                _number(each.median(contender, lambda run: run.p99_ms)),
                ratio_text(each.median(contender, lambda run: run.cores)),
            ]
            lines.append(f"{each.case.name:<24}{contender:<16}" + "".join(f"{cell:>10}" for cell in cells))
        lines.append(_latency_ratios(each))
    head = f"{'latency, read_committed':<24}{'contender':<16}{'records/s':>10}{'p50 ms':>10}{'p99 ms':>10}{'cores':>10}"
    return [head, *lines] if lines else []


def _latency_ratios(latency: Latency) -> str:
    shown = f"{'':<24}{'ratio':<26}{ratio_text(latency.p50_ratio):>10}{ratio_text(latency.p99_ratio):>10}"
    limits = (("p50", latency.p50_ratio, latency.case.p50_limit), ("p99", latency.p99_ratio, latency.case.p99_limit))
    for name, ratio, limit in limits:
        if limit is not None:
            shown += f"  {name} at most {limit}" + (MISSED if ratio is None or ratio > limit else "")
    return shown


def _recovery(report: Report) -> list[str]:
    lines = []
    for each in report.recovery:
        lines += [
            f"Killed with {each.keys:,} keys: seconds from the new process to the first result, and to one in each "
            "partition",
            f"{'disk and start':<24}{HEADRACE:>20}{KAFKA_STREAMS:>20}{'ratio':>8}{'target':>8}",
        ]
        for case in each.restarts:
            cells = []
            for contender in CONTENDERS:
                first, last = each.first_seconds(case, contender), each.all_seconds(case, contender)
                cells.append("-" if first is None or last is None else f"{first:.1f}, {last:.1f}")
            ratio = each.ratio(case)
            missed = MISSED if ratio is None or ratio > recovery.LIMIT else ""
            shown = "".join(f"{cell:>20}" for cell in cells)
            lines.append(f"{case.name:<24}{shown}{ratio_text(ratio):>8}{recovery.LIMIT:>8}{missed}")
        rate, target = each.rebuild_rate, recovery.REBUILD_TARGET
        missed = MISSED if rate is None or rate < target else ""
        lines.append(f"{'rebuild, records/s a core':<28}{_number(rate):>12}{target:>12,}{missed}")
    return lines


def _idle(report: Report) -> list[str]:
    lines = []
    for each in report.idle:
        limit = f"{idle.LIMIT:>8.0%}" if each.contender == HEADRACE else ""
        missed = MISSED if limit and each.cores >= idle.LIMIT else ""
        lines.append(f"{each.contender:<24}{each.cores:>8.1%}{limit}{missed}")
    return [f"{'without input':<24}{'a core':>8}{'target':>8}", *lines] if lines else []


# --- batches -------------------------------------------------------------------------------------------------------


def _tiny(report: Report) -> list[str]:
    lines = []
    for each in report.tiny:
        target = each.case.target_ms
        lines.append(f"{each.batches:,} batches of {tiny.RECORDS} records, {each.case.name}: the first and last tenth")
        lines.append(f"{'':<8}{'median ms':>12}{'target':>8}{'p99 ms':>10}{'MB':>10}{'disk MB':>10}")
        for name, part in (("first", each.first), ("last", each.last)):
            missed = "" if part.median_ms <= target else MISSED
            figures = f"{part.p99_ms:>10,.0f}{part.rss_mb:>10,.0f}{part.disk_mb:>10,.1f}"
            lines.append(f"{name:<8}{part.median_ms:>12,.0f}{target:>8}{figures}{missed}")
    return lines


def _growth(report: Report) -> list[str]:
    lines = []
    for each in report.growth:
        lines.append(f"{each.of:>14}{each.unit:>14}{'MB':>10}")
        for point in each.points:
            cost = "-" if point.cost is None else f"{point.cost:,.1f}"
            lines.append(f"{point.size:>14,}{cost:>14}{point.rss_mb:>10,.0f}")
        flat = "" if each.is_flat else MISSED
        lines.append(f"{'last to first':>14}{ratio_text(each.ratio):>14}  at most {growth.LIMIT}{flat}")
    return lines


def _ceiling(report: Report) -> list[str]:
    return [
        f"The driver's ceiling: {_number(each.rate)} results/s, transactions of up to {each.batch_results:,}; "
        f"{each.cpu_micros:.2f} µs of CPU a result"
        for each in report.ceiling
    ]


# --- the service and the test driver -------------------------------------------------------------------------------


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


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _task(report: Report) -> list[str]:
    return task.lines(report.task) if report.task else []


_PARTS = (
    _races,
    _rivals,
    _guarantees,
    _latency,
    _tiny,
    _growth,
    _ceiling,
    _recovery,
    _idle,
    _service,
    _driver,
    _task,
)
