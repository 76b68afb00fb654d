from __future__ import annotations

from headrace.cli.progress_line import ProgressLine
from headrace.spark.progress import BatchProgress


def test_the_line_has_state_records_rate_batch_lag_and_stores() -> None:
    now = 100.0
    line = ProgressLine(clock=lambda: now)
    assert line.text("REBALANCING") == "REBALANCING | 0 records | 0 records/s | lag ?"

    now = 104.0
    line.lag = 1200
    line.add(BatchProgress(7, 20_000, 3, {"null key": 2}, {"n": 5, "sums": 1}, 0.345))

    assert line.text("RUNNING") == (
        "RUNNING | 20,000 records | 5,000 records/s | batch 7 in 0.34 s | lag 1,200 | 2 dropped | stores n 5, sums 1"
    )


def test_the_rate_is_that_of_the_last_ten_seconds() -> None:
    now = 0.0
    line = ProgressLine(clock=lambda: now)
    line.add(BatchProgress(0, 1_000, 0, {}, {}, 0.1))
    now = 11.0
    line.add(BatchProgress(1, 5, 0, {}, {}, 0.1))

    assert line.rate == 0.5
    assert "| 0.5 records/s |" in line.text("RUNNING")


def test_totals_add_up_what_all_batches_did() -> None:
    now = 0.0
    line = ProgressLine(clock=lambda: now)
    for batch in range(2):
        line.add(BatchProgress(batch, 1_000, 10, {"null key": 1}, {}, 0.1))
    now = 12.3

    assert line.totals() == "2,000 records in, 20 out, in 2 batches, 12 s; dropped: 2 null key"
