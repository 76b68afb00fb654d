"""The changes of a store as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, TypeVar

from confluent_kafka import OFFSET_BEGINNING
from fastapi import APIRouter, Header, Query, Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from headrace.errors import KafkaAway
from headrace.serving.at_work import only_waiting
from headrace.serving.catalog import ServedStore
from headrace.serving.changes import Change, ChangeReader, GapError
from headrace.serving.rest.parameters import read_position, write_position
from headrace.serving.rest.problems import RETRY_SECONDS, Problem
from headrace.serving.rest.schemas import problem_answers
from headrace.serving.rest.stores import StoreName, service_of
from headrace.serving.service import Service, StoreTexts
from headrace.serving.tails import Ending, Follower, Tail
from headrace.serving.texts import to_json

router = APIRouter(prefix="/v1/stores", tags=["stores"])

BEGINNING = "beginning"
_HEARTBEAT_SECONDS = 10.0
_THREADS = 8
"""How many subscribers read what came before they did, at once."""
_LINE_ENDS = bytes.maketrans(b"\r\n", b"  ")

T = TypeVar("T")


@router.get(
    "/{store}/changes",
    summary="The changes of a store as server-sent events, resumable from a position",
    response_class=StreamingResponse,
    responses={
        200: {"description": "Events without end.", "content": {"text/event-stream": {"schema": {"type": "string"}}}},
        **problem_answers(400, 404, 410),
    },
)
async def changes(
    request: Request,
    store: StoreName,
    position: Annotated[
        str | None,
        Query(description="Where to begin: a position, or `beginning`; by default with what comes from now on."),
    ] = None,
    last_event_id: Annotated[str | None, Header(description="The id of the last event that was seen.")] = None,
) -> StreamingResponse:
    service = service_of(request)
    served = service.reader.store(store)
    partitions = service.instance.partitions(store)
    wanted = last_event_id or position
    start = dict.fromkeys(range(partitions), OFFSET_BEGINNING) if wanted == BEGINNING else read_position(wanted)
    beyond = [partition for partition in start if partition >= partitions]
    if beyond:
        raise Problem(400, "Bad Request", f"Store {store} has {partitions} partitions, there is no {beyond[0]}.")
    subscribers: Subscribers = request.app.state.subscribers
    subscribers.admit()
    try:
        reader = await subscribers.read(served, start) if start else None
        follower = await subscribers.follow(served, {} if reader is None else reader.positions)
    except BaseException as error:
        subscribers.count -= 1
        if isinstance(error, KafkaAway):
            raise _unavailable("Not available now", "Kafka does not answer.") from error
        if isinstance(error, GapError):
            raise Problem(410, "Changes are gone", str(error)) from error
        raise
    return _Subscription(subscribers, served, follower, reader)


class Subscribers:
    """Those who follow the changes of an instance's stores."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.count = 0
        self._tails: dict[str, Tail] = {}
        self._threads = ThreadPoolExecutor(_THREADS, "headrace-subscriber")

    def admit(self) -> None:
        """Counts one more; Problem where there are too many."""
        most = self.service.config.max_subscribers
        if self.count >= most:
            raise _unavailable("Too many subscribers", f"The instance has {most} subscribers already.")
        self.count += 1

    async def follow(self, store: ServedStore, at_least: Mapping[int, int]) -> Follower:
        """A follower of the store's changes from now on, or from where it has to be at least."""
        while True:
            tail = self._tails.get(store.name)
            if tail is None or tail.is_over:
                encode = partial(encode_change, self.service.texts[store.name])
                read = partial(self._reader, store, {})
                tail = self._tails[store.name] = Tail(read, encode, self.service.closing)
            follower = await tail.follow(at_least)
            if follower is not None:
                return follower

    def read(self, store: ServedStore, start: Mapping[int, int]) -> asyncio.Future[ChangeReader]:
        """A reader of the store's changes from a position on."""
        return self.in_thread(self._reader, store, start)

    def in_thread(self, function: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
        """Runs a function in a thread that readers of the stores do not need."""
        return asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)

    def _reader(self, store: ServedStore, start: Mapping[int, int]) -> ChangeReader:
        return ChangeReader(self.service.client_settings, store, self.service.instance.partitions(store.name), start)


class _Subscription(StreamingResponse):
    """Events until either side ends; whatever happens, nothing is left behind."""

    def __init__(
        self,
        subscribers: Subscribers,
        store: ServedStore,
        follower: Follower,
        reader: ChangeReader | None,
    ) -> None:
        super().__init__(self._events(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})
        self._subscribers = subscribers
        self._texts = subscribers.service.texts[store.name]
        self._closing = subscribers.service.closing
        self._store = store
        self._follower = follower
        self._reader = reader

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with only_waiting():
                await super().__call__(scope, receive, send)
        finally:
            self._subscribers.count -= 1
            self._follower.leave()
            self._close_reader()

    async def _events(self) -> AsyncIterator[bytes]:
        positions = self._follower.positions if self._reader is None else self._reader.positions
        yield f"retry: 1000\nid: {write_position(positions)}\n\n".encode()
        try:
            async for piece in self._earlier():
                yield piece
        except GapError as error:
            yield _ending("gap", str(error))
            return
        while True:  # until the client goes: then it is cancelled, or what it yields cannot be sent
            live = await self._follower.next(_HEARTBEAT_SECONDS)
            if live is not None:
                yield live
            elif self._follower.ending is None:
                yield b": still there\n\n"
            else:
                # Who comes back with its position goes on from there, or gets a 410.
                yield _ENDINGS.get(self._follower.ending, b"")
                return

    async def _earlier(self) -> AsyncIterator[bytes]:
        """What was committed before the tail of the store, from the position that was asked for."""
        subscribers, store = self._subscribers, self._store
        while (reader := self._reader) is not None:
            delivered = dict(reader.positions)
            target = self._follower.positions
            while self._follower.ending is None and any(delivered[each] < target[each] for each in target):
                for change in await subscribers.in_thread(reader.read):
                    if change.offset < target[change.partition]:
                        yield encode_change(self._texts, _up_to(target, change))
                delivered = _least(reader.positions, target)
                if self._closing.is_set():
                    return
            self._close_reader()
            if self._follower.ending is Ending.BEHIND:
                # The tail was faster: it is met further on.
                self._follower.leave()
                self._reader = await subscribers.read(store, delivered)
                self._follower = await subscribers.follow(store, delivered)

    def _close_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            # Not waited for: it may still be reading.
            self._subscribers.in_thread(reader.close)


def encode_change(texts: StoreTexts, change: Change) -> bytes:
    """A change as a server-sent event."""
    content: dict[str, Any] = {
        "partition": change.partition,
        "offset": change.offset,
        "key": texts.key.to_json(change.key),
        **({"value": None} if change.value is None else texts.value_to_json(change.value)),
        "timestamp": change.timestamp,
    }
    if change.start is not None:
        content["window"] = {"start": change.start, "end": change.end}
    # JSON that came as it is may have line ends between its parts.
    data = to_json(content).translate(_LINE_ENDS)
    return b"id: " + write_position(change.positions).encode() + b"\nevent: change\ndata: " + data + b"\n\n"


def _up_to(target: Mapping[int, int], change: Change) -> Change:
    """The change with a position that does not pass over what the tail has."""
    return replace(change, positions=_least(change.positions, target))


def _least(one: Mapping[int, int], other: Mapping[int, int]) -> dict[int, int]:
    return {each: min(offset, other[each]) for each, offset in one.items()}


def _unavailable(title: str, detail: str) -> Problem:
    return Problem(503, title, detail, headers={"Retry-After": str(RETRY_SECONDS)})


def _ending(name: str, detail: str) -> bytes:
    return f"event: {name}\ndata: ".encode() + to_json({"detail": detail}) + b"\n\n"


_ENDINGS = {
    Ending.BEHIND: _ending("behind", "Changes came faster than they were read. Resume with the id of the last event."),
    Ending.GAP: _ending("gap", "Kafka has deleted changes that were not read yet. Begin again."),
}
