"""What a put into a table's store answers: until when the value is valid."""

from __future__ import annotations

LATEST = -1
"""The value is the latest of its key."""

NOT_PUT = -(2**63)
"""The record is too old for the store and was dropped."""
