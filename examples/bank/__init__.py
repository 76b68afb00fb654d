"""A bank: balances of accounts, asked from any of three instances."""

from .api import router
from .pipeline import config, topology

__all__ = ["config", "router", "topology"]
