"""`python -m benchmarks`: measures, prints a table and writes the figures as JSON."""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path

from benchmarks.driver import RECORDS, ROUNDS, WORKLOADS, measure

REPORT = Path("build") / "benchmarks.json"


def main() -> int:
    """Measures all workloads; 1 where one misses its target."""
    print(f"{RECORDS:,} records each, median of {ROUNDS}, one core, Python {platform.python_version()}")
    print(f"{'workload':<18}{'records/s':>12}{'target':>12}")
    figures = {}
    for workload in WORKLOADS:
        rate = measure(workload)
        figures[workload.name] = {"records_per_second": round(rate), "target": workload.target}
        missed = "" if rate >= workload.target else "  missed"
        print(f"{workload.name:<18}{rate:>12,.0f}{workload.target:>12,}{missed}", flush=True)
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(json.dumps(figures, indent=2) + "\n")
    print(f"written to {REPORT}")
    return 0 if all(figure["records_per_second"] >= figure["target"] for figure in figures.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
