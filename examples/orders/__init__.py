"""Retail orders: counts and revenue by location, exactly once."""

from .api import router
from .pipeline import config, topology

__all__ = ["config", "router", "topology"]
