"""`make demo` as a user runs it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from examples.orders.pipeline import GENERAL, RESTAURANT, address_json, order_json
from headrace.cli.result_reader import ResultReader
from headrace.kafka.clients import ClientSettings
from headrace.kafka.embedded import EmbeddedKafka

pytestmark = pytest.mark.acceptance

ROOT = Path(__file__).parents[3]
ROW = re.compile(
    r"(?P<location>store_\d+) (?P<type>general|restaurant) \| .*orders (?P<orders>\d+) \| revenue (?P<revenue>.+)"
)
_PATIENCE_SECONDS = 600.0

Totals = dict[tuple[str, str], tuple[int, Decimal]]


@contextmanager
def make_demo(state_dir: Path) -> Iterator[subprocess.Popen[str]]:
    """`make demo` in a process group of its own, as in a terminal; one that hangs is killed."""
    process = subprocess.Popen(
        ["make", "--no-print-directory", "demo", f"OPTIONS=--state-dir {state_dir} --rate 50 --port 0"],
        cwd=ROOT,
        env={**os.environ, "XDG_STATE_HOME": str(state_dir)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    patience = threading.Timer(_PATIENCE_SECONDS, os.killpg, [process.pid, signal.SIGKILL])
    patience.start()
    try:
        yield process
    finally:
        patience.cancel()
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def rows_in(lines: Iterable[str]) -> Iterator[re.Match[str]]:
    return (row for line in lines if (row := ROW.fullmatch(line.rstrip())) is not None)


def remember(lines: Iterable[str], seen: list[str]) -> Iterator[str]:
    for line in lines:
        seen.append(line)
        yield line


def totals_passed_on(servers: str) -> Totals:
    """Count and revenue of the orders that the pipeline has passed on."""
    counts: Counter[tuple[str, str]] = Counter()
    revenues: dict[tuple[str, str], Decimal] = {}

    def add(message: Any) -> None:
        order = order_json.deserialize(message.value())
        place = (order.location_id, order.order_type.value.lower())
        counts[place] += 1
        revenues[place] = revenues.get(place, Decimal(0)) + order.final_amount

    read(servers, [GENERAL, RESTAURANT], add)
    return {place: (counts[place], revenues[place]) for place in counts}


def results(servers: str) -> Totals:
    """Count and revenue as the pipeline has them, by the last result of each location and type."""
    found: Totals = {}

    def take(message: Any) -> None:
        total = address_json.deserialize(message.value()).total_revenue
        kind = message.topic().partition("_")[0]
        found[total.location_id, kind] = (total.running_order_count, total.running_revenue)

    read(servers, [f"{name}_revenue_with_address" for name in (GENERAL, RESTAURANT)], take)
    return found


def read(servers: str, topics: list[str], on_message: Callable[[Any], None]) -> None:
    reader = ResultReader(ClientSettings(servers), topics, on_message)
    reader.read_to_the_end()
    reader.close()


def test_make_demo_shows_results_and_stops_with_ctrl_c(tmp_path: Path) -> None:
    # Whoever names the directory shares this Kafka, and the usual port may be taken.
    with EmbeddedKafka(tmp_path, port=0) as kafka:
        with make_demo(tmp_path) as process:
            assert process.stdout is not None
            seen: list[str] = []
            first = next(rows_in(remember(process.stdout, seen)), None)
            assert first is not None, "".join(seen)
            dashboard = next(line.split()[-1] for line in seen if line.startswith("Dashboard: "))
            assert "<title>" in httpx.get(dashboard, timeout=_PATIENCE_SECONDS).text

            os.killpg(process.pid, signal.SIGINT)
            rest = process.stdout.readlines()
            assert process.wait() == -signal.SIGINT  # make's own way to end

        passed_on = totals_passed_on(kafka.bootstrap_servers)
        assert passed_on == results(kafka.bootstrap_servers)
    end = next((line for line in rest if line.startswith(("Stopped: ", "Left without waiting"))), None)
    assert end is not None, "".join(rest)
    if end.startswith("Stopped: "):  # a machine with too much to do leaves after 10 seconds without showing them
        shown: Totals = {
            (row["location"], row["type"]): (int(row["orders"]), Decimal(row["revenue"].replace(",", "")))
            for row in rows_in(rest)
        }
        assert shown == passed_on
