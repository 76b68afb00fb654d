"""A clock for how long ago something was."""

from __future__ import annotations

import time

_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", None)


def clock() -> float:
    """Seconds that nobody sets, and that go on while the machine is suspended, where the system has such a clock."""
    return time.monotonic() if _BOOTTIME is None else time.clock_gettime(_BOOTTIME)
