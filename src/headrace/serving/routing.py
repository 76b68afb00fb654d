"""Finds who can answer: this instance, the owner of a partition, or all of them together.

A peer is asked through its own path, which answers from its own copies and asks nobody: a question makes one hop at
most, whatever either side believes about who owns what.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Protocol

from msgspec.structs import replace

from headrace.errors import HeadraceError
from headrace.serdes.hashing import partition_for_key
from headrace.serving.at_work import only_waiting
from headrace.serving.instance import Instance
from headrace.serving.off_loop import MANY_ROWS, off_loop
from headrace.serving.queries import GET, NOT_HERE, Answer, Query, Refusal, answer_locally, merge_answers, waits

logger = logging.getLogger(__name__)

UNREACHABLE = "unreachable"
_PEER_SHARE = 0.8
"""The part of the time that is left which a peer is given: the rest is for the next one to ask."""
_WAIT_SHARE = 0.6
"""The part of it that an instance may wait for what is demanded: it has to say in time that it did not come."""
_KEYS_AT_ONCE = 10
"""How many keys are read between other requests; more, and whatever takes long, is left to other threads."""


class PeerError(HeadraceError):
    """A peer did not answer."""


class Peers(Protocol):
    """How peers are asked."""

    async def ask(self, address: str, query: Query, timeout: float) -> Answer:
        """What the peer's own copies have to say; PeerError where it does not answer in time."""
        ...


class Router:
    """Asks whoever has the partitions of a query."""

    def __init__(self, instance: Instance, peers: Peers) -> None:
        self._instance = instance
        self._peers = peers

    def partition_of(self, store: str, key: bytes) -> int:
        """The partition of a key, as producers choose it."""
        return partition_for_key(key, self._instance.partitions(store))

    async def ask(self, query: Query, timeout: float) -> Answer:
        """The answer of all partitions of the query; those nobody answered for are among its refusals.

        Where what is stale will do, everybody is asked for what is fresh first.
        """
        round_ = _Round(query, time.monotonic() + timeout)
        turns = {partition: self._candidates(query.store, partition) for partition in query.partitions}
        await self._ask_in_turn(replace(query, allow_stale=False), turns, round_)
        if query.allow_stale and round_.open:
            others = [member.address for member in self._instance.view.members]
            turns = {
                partition: list(dict.fromkeys([*self._candidates(query.store, partition), *others]))
                for partition in round_.open
            }
            await self._ask_in_turn(query, turns, round_)
        return await off_loop(round_.rows > MANY_ROWS, round_.answer)

    async def _ask_in_turn(self, query: Query, turns: Mapping[int, list[str]], round_: _Round) -> None:
        while groups := _next_turn(turns, round_.open, round_.unreachable):
            # Each of them fills its share of a page. What there is of some keys comes whole, or not at all.
            share = query.most_bytes if query.kind == GET else query.most_bytes // len(groups)
            asked = [
                self._ask_one(address, replace(query, partitions=tuple(partitions), most_bytes=share), round_)
                for address, partitions in groups.items()
            ]
            # One is asked without a task of its own.
            for answer in [await asked[0]] if len(asked) == 1 else await asyncio.gather(*asked):
                round_.take(answer)

    def _candidates(self, store: str, partition: int) -> list[str]:
        own = self._instance.address
        if own is None or self._instance.stores[store].is_global:
            return [own or ""]
        return self._instance.candidates(store, partition)

    async def _ask_one(self, address: str, query: Query, round_: _Round) -> Answer:
        left = max(0.0, round_.deadline - time.monotonic())
        if address == (self._instance.address or ""):
            return await self.ask_locally(query, left * _WAIT_SHARE)
        try:
            asked = replace(query, wait_ms=int(left * _WAIT_SHARE * 1000))
            return await self._peers.ask(address, asked, left * _PEER_SHARE)
        except PeerError as error:
            logger.info("%s did not answer: %s", address, error)
            round_.unreachable.add(address)
            return Answer(
                refused={each: Refusal(UNREACHABLE, f"{address} did not answer") for each in query.partitions}
            )

    async def ask_locally(self, query: Query, timeout: float) -> Answer:
        """What this instance has itself; it waits for what is demanded until the timeout."""
        if waits(self._instance, query):
            with only_waiting():
                await self._instance.moves.until(lambda: not waits(self._instance, query), timeout)
        if query.kind == GET and len(query.keys) <= _KEYS_AT_ONCE:
            return answer_locally(self._instance, query)
        return await asyncio.get_running_loop().run_in_executor(
            self._instance.readers, answer_locally, self._instance, query
        )


class _Round:
    """What is known so far of the answer to a query."""

    def __init__(self, query: Query, deadline: float) -> None:
        self.deadline = deadline
        self.open = set(query.partitions)
        """The partitions nobody has answered for yet."""
        self.unreachable: set[str] = set()
        self._limit = query.limit
        self._most_bytes = query.most_bytes
        self._answers: list[Answer] = []
        self._refused: dict[int, Refusal] = {}

    @property
    def rows(self) -> int:
        """How many rows the instances have answered with."""
        return sum(len(answer.rows) for answer in self._answers)

    def take(self, answer: Answer) -> None:
        """Takes in what one instance said."""
        self._answers.append(answer)
        self._refused.update(answer.refused)
        self.open.difference_update(answer.positions)

    def answer(self) -> Answer:
        """All of it together."""
        merged = merge_answers(self._answers, self._limit, self._most_bytes)
        merged.refused = {partition: self._refused.get(partition, _NOBODY) for partition in sorted(self.open)}
        return merged


_NOBODY = Refusal(NOT_HERE, "no instance has the partition at the moment")


def _next_turn(
    turns: Mapping[int, list[str]], open_partitions: set[int], unreachable: set[str]
) -> dict[str, list[int]]:
    """By address, the partitions to ask it for next."""
    groups: dict[str, list[int]] = {}
    for partition in sorted(open_partitions):
        while turns[partition]:
            address = turns[partition].pop(0)
            if address not in unreachable:
                groups.setdefault(address, []).append(partition)
                break
    return groups
