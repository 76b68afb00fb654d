"""An hour of everything at once: `python -m tests.soak [--seconds N] [--seed S]`.

Three brokers, three instances, orders that flow and clients that read, while instances, brokers and the network are
struck. In the end every order has taken effect once, no answer was wrong, and neither memory nor disk has grown.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.chaos.cluster import KafkaCluster
from tests.histories.clients import RestReader
from tests.histories.history import History
from tests.histories.run import Outcome, under_load
from tests.histories.shop import Shop
from tests.soak.resources import Resources
from tests.soak.troubles import Troubles

_CLIENTS = 3
_ORDERS_A_SECOND = 30.0
_TELL_SECONDS = 60.0
_SHOWN = 20


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak")
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(1_000_000)))
    given = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="headrace-soak-"))
    began = time.monotonic()
    outcome, history = Outcome(given.seed), History()
    with KafkaCluster(directory / "cluster") as cluster:
        shop = Shop(
            cluster.bootstrap_servers,
            directory,
            random.Random(f"{given.seed}-orders"),
            instances_servers=cluster.proxied_servers,
            orders_a_second=_ORDERS_A_SECOND,
        )
        try:
            shop.settle()
            resources = Resources(shop)
            troubles = Troubles(shop, cluster, random.Random(f"{given.seed}-troubles"))
            outcome.strikes = troubles.counts

            def happen() -> None:
                # Who is killed all the time does not get old enough to grow.
                for spared in shop.processes[:2]:
                    troubles.spared = (spared, shop.server)
                    troubles.go_on(given.seconds / 2)

            readers = [RestReader(number, lambda: shop.addresses, history, given.seed) for number in range(_CLIENTS)]
            with resources.watched(), _told(history, troubles, resources, began + given.seconds):
                outcome.violations = under_load(shop, history, outcome, readers, happen)
        finally:
            shop.clean_up()
    outcome.seconds = time.monotonic() - began
    for violation in outcome.violations[:_SHOWN]:
        print(violation)
    for key in outcome.inexact[:_SHOWN]:
        print(f"{key} was not updated once for each order")
    for name, warm, last in resources.long_lives():
        print(f"memory of {name}: {warm:.0f} MB when warm, {last:.0f} MB in the end")
    print(
        f"memory of all at most {resources.most:.0f} MB; files {resources.disk[0]:.1f} MB, {resources.disk[-1]:.1f} MB"
    )
    problems = resources.problems()
    if troubles.believed:
        problems.append(f"instances answered {troubles.believed} requests that were for a stranger's address")
    for problem in problems:
        print(problem)
    print(f"soak, {outcome}")
    is_right = outcome.is_right and not problems
    if is_right:
        shutil.rmtree(directory, ignore_errors=True)
    else:
        print(f"The logs of instances and brokers are in {directory}")
    return 0 if is_right else 1


@contextmanager
def _told(history: History, troubles: Troubles, resources: Resources, until: float) -> Iterator[None]:
    """Says each minute how things are."""
    over = threading.Event()

    def tell() -> None:
        while not over.wait(_TELL_SECONDS):
            left = max(0.0, until - time.monotonic())
            print(
                f"{len(history)} reads, {sum(troubles.counts.values())} strikes, at most {resources.most:.0f} MB; "
                f"{left / 60:.0f} minutes left",
                flush=True,
            )

    thread = threading.Thread(target=tell, name="telling", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


if __name__ == "__main__":
    sys.exit(main())
