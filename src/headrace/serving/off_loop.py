"""Work that would hold up the event loop, and with it the requests of everybody else, is left to other threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

LARGE_BYTES = 128 * 1024
MANY_ROWS = 100

T = TypeVar("T")


async def off_loop(is_much: bool, function: Callable[[], T]) -> T:
    """What a function returns; it is called in another thread where there is much to do."""
    return await asyncio.get_running_loop().run_in_executor(None, function) if is_much else function()
