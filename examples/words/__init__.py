"""Words: tables, aggregations, joins, windows and caching, each as small as can be."""

from .pipeline import topology

__all__ = ["topology"]
