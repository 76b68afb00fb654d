"""The orders, and one that waits."""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec

OPEN = "open"
HELD_BY = "held-by"


class Order(msgspec.Struct):
    """Somebody buys something."""

    product: str
    amount: int
    gate: str = ""
    """A directory in which a file says that the order may go on."""


def wait_at_gate(order: Order) -> Order:
    """Waits until the order's gate is open, and leaves word of the disk of the executor that waits."""
    if order.gate and not Path(order.gate, OPEN).exists():
        draft = Path(order.gate, f"{HELD_BY}-{os.getpid()}")
        draft.write_text(os.environ["SPARK_LOCAL_DIRS"])
        draft.replace(Path(order.gate, HELD_BY))
        while not Path(order.gate, OPEN).exists():
            time.sleep(0.02)
    return order
