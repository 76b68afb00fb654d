"""Transactions without end, the same for the same seed; now and then somebody wants more than there is.

python -m examples.bank.generator sends them to a Kafka whose topic is there.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from random import Random

from headrace.cli.feeding import Message, feed
from headrace.kafka.clients import ClientSettings

from .pipeline import TRANSACTIONS, account, amount

PEOPLE = ("alice", "bob", "carol", "dave", "erin", "frank")


def messages(random: Random) -> Iterator[Message]:
    """Payments of 1 to 100, two in for each one out."""
    while True:
        change = random.randint(1, 100) * random.choice((1, 1, -1))
        yield Message(TRANSACTIONS, account.serialize(random.choice(PEOPLE)), amount.serialize(change))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.bank.generator", description=__doc__)
    parser.add_argument("--bootstrap-servers", default="localhost:9092")
    parser.add_argument("--rate", type=float, default=20.0, help="messages a second")
    parser.add_argument("--messages", type=int, help="how many; without end by default")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    wanted = itertools.islice(messages(Random(given.seed)), given.messages)
    sent = feed(ClientSettings(given.bootstrap_servers), wanted, given.rate)
    print(f"{sent} messages sent.")


if __name__ == "__main__":
    main()
