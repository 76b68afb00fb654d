"""The latency of a record is that of the first result that includes it, and no record is left out."""

from __future__ import annotations

import pytest

pytest.importorskip("confluent_kafka")

from benchmarks.latency import Case, Latency, Run, Seen, counted, latencies
from benchmarks.percentiles import percentile
from benchmarks.recovery import Case as RecoveryCase
from benchmarks.recovery import Recovery, Restart, restart
from benchmarks.steady import Sent
from benchmarks.watching import Arrival


def test_a_later_result_counts_for_the_records_it_includes():
    sent = [Sent(1.0, b"a", 1), Sent(1.1, b"a", 2), Sent(1.2, b"b", 1), Sent(1.3, b"a", 3)]
    seen = [Seen(1.5, b"a", 2), Seen(1.6, b"b", 1), Seen(1.9, b"a", 3)]
    assert latencies(sent, seen) == pytest.approx([0.5, 0.4, 0.4, 0.6])


def test_the_first_of_several_results_counts_and_a_repeated_one_does_not():
    sent = [Sent(1.0, b"a", 2)]
    assert latencies(sent, [Seen(1.1, b"a", 1), Seen(1.2, b"a", 2), Seen(1.3, b"a", 2), Seen(1.4, b"a", 3)]) == [
        pytest.approx(0.2)
    ]


def test_records_before_the_measured_ones_still_count_as_ordinals():
    assert latencies([Sent(5.0, b"a", 7)], [Seen(4.0, b"a", 6), Seen(5.25, b"a", 7)]) == [0.25]


@pytest.mark.parametrize("seen", [[], [Seen(1.5, b"a", 1)], [Seen(1.5, b"b", 9)]])
def test_a_record_without_a_result_is_no_figure(seen: list[Seen]):
    with pytest.raises(RuntimeError, match="1 of 1 records had no result"):
        latencies([Sent(1.0, b"a", 2)], seen)


def test_results_say_what_they_include():
    arrivals = [Arrival(1.0, 0, b"a", b'{"count":3,"revenue":1.5}')]
    assert counted(arrivals, one_each=False) == [Seen(1.0, b"a", 3)]
    assert counted(arrivals, one_each=True) == [Seen(1.0, b"a", 1)]


@pytest.mark.parametrize(
    ("count", "share", "expected"),
    [(1, 0.5, 0), (1, 0.99, 0), (4, 0.5, 2), (100, 0.5, 50), (100, 0.99, 99), (1000, 0.99, 990), (50, 0.99, 49)],
)
def test_percentiles(count: int, share: float, expected: int):
    assert percentile(list(reversed(range(count))), share) == expected


def test_ratios_are_those_of_the_medians_of_the_rounds():
    case = Case("keys-1k", "totals", 200, 64, 2.0, None)
    rounds = {
        "headrace": [Run(200, 90, 100, 1), Run(200, 110, 900, 1), Run(200, 500, 300, 1)],
        "kafka-streams": [Run(200, 100, 150, 1), Run(200, 40, 150, 1), Run(200, 300, 150, 1)],
    }
    latency = Latency(case, rounds)
    assert case.name == "keys-1k-200-64p"
    assert latency.p50_ratio == pytest.approx(1.1)
    assert latency.p99_ratio == pytest.approx(2.0)
    assert Latency(case, {"headrace": rounds["headrace"]}).p50_ratio is None


def test_a_restart_is_over_with_the_first_result_after_it():
    arrivals = [Arrival(at, partition, b"", b"") for at, partition in ((9, 0), (12, 1), (13, 0), (14, 1))]
    assert restart(arrivals, 10, 2) == Restart(2, 3)
    with pytest.raises(RuntimeError, match="Only 1 of 2 partitions"):
        restart(arrivals, 13.5, 2)


def test_the_rate_of_rebuilds_is_that_of_the_workers():
    kept, lost = RecoveryCase(disk_kept=True, at_once=False), RecoveryCase(disk_kept=False, at_once=False)
    recovery = Recovery(
        1_000_000,
        {
            kept: {"headrace": [Restart(4, 5)], "kafka-streams": [Restart(8, 9)]},
            lost: {"headrace": [Restart(6, 7.5, 1_000_000, 5.0)], "kafka-streams": [Restart(8, 9)]},
        },
    )
    assert recovery.rebuild_rate == 200_000
    assert (recovery.ratio(kept), recovery.ratio(lost)) == (0.5, 0.75)
