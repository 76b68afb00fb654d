"""Those who wait for copies to move on."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

import pytest

from headrace.serving.moves import Moves

PATIENCE = 10.0


class Position:
    """Where a copy is, and how often somebody looked."""

    def __init__(self) -> None:
        self.value = 0
        self.looks = 0

    def is_at(self, wanted: int) -> bool:
        self.looks += 1
        return self.value >= wanted


@pytest.mark.parametrize("number", range(20))
def test_who_waits_on_a_loop_is_woken_by_another_thread(number: int) -> None:
    moves, position = Moves(), Position()

    def move() -> None:
        for position.value in range(1, 50):
            moves.tell()

    async def wait() -> list[bool]:
        mover = threading.Thread(target=move)
        waiting = [asyncio.create_task(moves.until(partial(position.is_at, at), PATIENCE)) for at in range(50)]
        if number % 2:
            await asyncio.sleep(0)
        mover.start()
        return await asyncio.gather(*waiting)

    assert all(asyncio.run(wait()))


def test_nobody_looks_while_nothing_moves() -> None:
    moves, position = Moves(), Position()

    async def wait() -> bool:
        return await moves.until(lambda: position.is_at(1), 0.2)

    assert not asyncio.run(wait())
    assert position.looks <= 3


def test_who_is_cancelled_waits_no_more() -> None:
    moves, position = Moves(), Position()

    async def wait() -> None:
        task = asyncio.create_task(moves.until(lambda: position.is_at(1), PATIENCE))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        before = position.looks
        moves.tell()
        await asyncio.sleep(0)
        assert position.looks == before

    asyncio.run(wait())


def test_a_loop_that_has_ended_is_forgotten() -> None:
    moves, position = Moves(), Position()
    asyncio.run(asyncio.wait_for(moves.until(lambda: True, PATIENCE), PATIENCE))
    moves.tell()

    def move() -> None:
        position.value = 1
        moves.tell()

    threading.Thread(target=move).start()
    assert moves.wait_for(lambda: position.is_at(1), PATIENCE)
