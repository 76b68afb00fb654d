"""`python -m examples.NAME.generator` sends data to any Kafka whose topics are there."""

from __future__ import annotations

import subprocess
import sys

import pytest

from examples.bank.pipeline import TRANSACTIONS
from examples.orders.pipeline import ORDERS, STORES
from headrace.kafka.clients import ClientSettings
from headrace.kafka.embedded import EmbeddedKafka
from headrace.kafka.topics import Topics, TopicSpec
from tests.examples.readme import ROOT
from tests.spark.running import read_all


@pytest.mark.parametrize(("name", "topics"), [("bank", [TRANSACTIONS]), ("orders", [ORDERS, STORES])])
def test_so_many_messages_are_sent(name: str, topics: list[str], embedded_kafka: EmbeddedKafka) -> None:
    settings = ClientSettings(embedded_kafka.bootstrap_servers)
    Topics(settings).create([TopicSpec(topic, 2) for topic in topics], exist_ok=True)
    before = sum(len(read_all(settings, topic)) for topic in topics)
    command = [sys.executable, "-m", f"examples.{name}.generator", "--messages", "30", "--rate", "1000"]

    done = subprocess.run(
        [*command, "--bootstrap-servers", settings.bootstrap_servers],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=120,
    )

    assert done.stdout == "30 messages sent.\n"
    assert sum(len(read_all(settings, topic)) for topic in topics) - before == 30
