"""Greetings: two topics merged, long greetings in upper case, and what happens to records that go wrong."""

from .pipeline import topology

__all__ = ["topology"]
