"""Kills the pipeline while orders flow, and shows that the revenue still is the sum of the orders.

python -m examples.orders.kill brings its own Kafka along and throws it away at the end.
"""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

from headrace.cli.feeding import Message, feed
from headrace.cli.result_reader import ResultReader
from headrace.errors import EnvironmentFailed, SerializationError
from headrace.kafka.clients import ClientSettings
from headrace.kafka.embedded import EmbeddedKafka
from headrace.kafka.partitions import source_topics
from headrace.kafka.topics import Topics, TopicSpec, fixed_sinks

from .generator import messages
from .models import ZERO, OrderType
from .pipeline import DEAD_LETTERS, GENERAL, ORDERS, RESTAURANT, address_json, config, order_json, topology

NAMES = {OrderType.GENERAL: GENERAL, OrderType.RESTAURANT: RESTAURANT}
_PARTITIONS = 4
_FIRST = 10
"""How many messages are sent before all others: stores, and some orders to begin with."""
_POLL_SECONDS = 0.1


@dataclass
class Total:
    """So many orders, and what they bring in."""

    orders: int = 0
    revenue: Decimal = ZERO

    def __str__(self) -> str:
        return f"{self.orders} orders, {self.revenue}"


class Pipeline:
    """The application as `headrace run` starts it, in a process of its own."""

    def __init__(self, settings: ClientSettings, state_dir: Path) -> None:
        self._topics = Topics(settings)
        self._state_dir = state_dir
        self._begin = 0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it; it goes on where it was."""
        self._begin = self._committed()
        command = [sys.executable, "-m", "headrace", "run", f"{__package__}:topology"]
        with (self._state_dir / "pipeline.txt").open("ab") as output:
            self._process = subprocess.Popen(
                [*command, "--state-dir", str(self._state_dir)], stdout=output, stderr=output, start_new_session=True
            )

    def kill(self) -> None:
        """Kills it with all that belongs to it; nothing is finished."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def await_work(self) -> None:
        """Returns when it has committed orders since its start."""
        while self._committed() == self._begin:
            self._pause()

    def await_all(self) -> None:
        """Returns when it has committed all that was sent."""
        while any(each.lag for each in self._topics.lag(str(config.application_id), source_topics(topology()))):
            self._pause()

    def _committed(self) -> int:
        return sum(each.committed or 0 for each in self._topics.lag(str(config.application_id), [ORDERS]))

    def _pause(self) -> None:
        if self._process is None or self._process.poll() is not None:
            output = (self._state_dir / "pipeline.txt").read_text()
            raise EnvironmentFailed(f"The pipeline has ended by itself:\n{output}")
        time.sleep(_POLL_SECONDS)


def sent(records: Iterable[Message]) -> dict[str, Total]:
    """What the good orders among the messages add up to, by type."""
    totals = {name: Total() for name in NAMES.values()}
    for record in records:
        try:
            order = order_json.deserialize(record.value) if record.topic == ORDERS else None
        except SerializationError:
            continue
        if order is None:
            continue
        total = totals[NAMES[order.order_type]]
        total.orders += 1
        total.revenue += order.final_amount
    return totals


def counted(settings: ClientSettings) -> dict[str, Total]:
    """What the pipeline made of them: the last result of each location, by type."""
    latest: dict[tuple[str, bytes], Total] = {}

    def take(message: Any) -> None:
        value = address_json.deserialize(message.value())
        assert value is not None
        result = value.total_revenue
        latest[message.topic(), message.key()] = Total(result.running_order_count, result.running_revenue)

    results = {f"{name}_revenue_with_address": name for name in NAMES.values()}
    reader = ResultReader(settings, results, take)
    try:
        reader.read_to_the_end()
    finally:
        reader.close()
    totals = {name: Total() for name in NAMES.values()}
    for (topic, _), total in latest.items():
        totals[results[topic]].orders += total.orders
        totals[results[topic]].revenue += total.revenue
    return totals


def run(kills: int, records: list[Message], rate: float, settings: ClientSettings, pipeline: Pipeline) -> None:
    """Sends all messages, with kills in between: before each one while the pipeline is at work, and right after it."""
    done: Counter[str] = Counter()

    def send(part: list[Message]) -> None:
        feed(settings, part, rate)
        done.update(record.topic for record in part)

    pipeline.start()
    send(records[:_FIRST])
    size = max(1, -(-(len(records) - _FIRST) // (2 * kills)))
    for start in range(_FIRST, len(records), 2 * size):
        pipeline.await_work()
        send(records[start : start + size])
        pipeline.kill()
        print(f"Killed after {done[ORDERS]} orders.", flush=True)
        pipeline.start()
        send(records[start + size : start + 2 * size])
    pipeline.await_all()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.orders.kill", description=__doc__)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--messages", type=int, default=600)
    parser.add_argument("--rate", type=float, default=50.0, help="messages a second")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    records = list(itertools.islice(messages(Random(given.seed)), given.messages))
    with (
        tempfile.TemporaryDirectory(prefix="headrace-kill-", ignore_cleanup_errors=True) as directory,
        EmbeddedKafka(Path(directory), port=0) as kafka,
    ):
        settings = ClientSettings(kafka.bootstrap_servers)
        names = [*source_topics(topology()), *fixed_sinks(topology(), DEAD_LETTERS)]
        Topics(settings).create(TopicSpec(name, _PARTITIONS) for name in names)
        pipeline = Pipeline(settings, Path(directory))
        try:
            run(given.kills, records, given.rate, settings, pipeline)
        finally:
            pipeline.kill()
        found = counted(settings)
    expected = sent(records)
    for name, total in expected.items():
        print(f"{name}: sent {total}; counted {found[name]}")
    is_right = found == expected
    print("The revenue is the sum of the orders, to the cent." if is_right else "The revenue is wrong!")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
