"""Spark's masters: this machine or a cluster."""

from __future__ import annotations

MASTER = "spark.master"


def is_local(master: str) -> bool:
    """Whether the master is this process alone: all tasks run on this machine, with this machine's files."""
    return master.startswith("local") and not master.startswith("local-cluster")
