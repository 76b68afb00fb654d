"""The changes of a store as server-sent events."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Annotated, Any

from confluent_kafka import OFFSET_BEGINNING
from fastapi import APIRouter, Header, Query, Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from headrace.errors import KafkaAway
from headrace.serving.changes import Change, ChangeReader, GapError
from headrace.serving.rest.parameters import read_position, write_position
from headrace.serving.rest.problems import RETRY_SECONDS, Problem
from headrace.serving.rest.schemas import problem_answers
from headrace.serving.rest.stores import StoreName, service_of
from headrace.serving.service import Service, StoreTexts
from headrace.serving.texts import to_json

router = APIRouter(prefix="/v1/stores", tags=["stores"])

BEGINNING = "beginning"
_HEARTBEAT_SECONDS = 10.0
_LINE_ENDS = bytes.maketrans(b"\r\n", b"  ")


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
    if service.subscribers >= service.config.max_subscribers:
        raise Problem(
            503,
            "Too many subscribers",
            f"The instance has {service.config.max_subscribers} subscribers already.",
            headers={"Retry-After": str(RETRY_SECONDS)},
        )
    service.subscribers += 1
    try:
        reader = await service.in_subscriber_thread(ChangeReader, service.client_settings, served, partitions, start)
    except KafkaAway as error:
        service.subscribers -= 1
        headers = {"Retry-After": str(RETRY_SECONDS)}
        raise Problem(503, "Not available now", "Kafka does not answer.", headers=headers) from error
    except GapError as error:
        service.subscribers -= 1
        raise Problem(410, "Changes are gone", str(error)) from error
    except BaseException:
        service.subscribers -= 1
        raise
    return _Subscription(request, service, reader, service.texts[store])


class _Subscription(StreamingResponse):
    """Events until either side ends; whatever happens, the reader is closed."""

    def __init__(self, request: Request, service: Service, reader: ChangeReader, texts: StoreTexts) -> None:
        events = _events(request, service, reader, texts)
        super().__init__(events, media_type="text/event-stream", headers={"Cache-Control": "no-store"})
        self._service = service
        self._reader = reader

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._service.subscribers -= 1
            # Not waited for: it may still be reading.
            self._service.in_subscriber_thread(self._reader.close)


async def _events(request: Request, service: Service, reader: ChangeReader, texts: StoreTexts) -> AsyncIterator[bytes]:
    yield f"retry: 1000\nid: {write_position(reader.positions)}\n\n".encode()
    last = time.monotonic()
    while not service.closing.is_set() and not await request.is_disconnected():
        try:
            found = await service.in_subscriber_thread(reader.read)
        except GapError as error:
            # Who comes back with its position gets a 410.
            yield b"event: gap\ndata: " + to_json({"detail": str(error)}) + b"\n\n"
            return
        for change in found:
            yield _event(texts, change)
        if found:
            last = time.monotonic()
        elif time.monotonic() - last > _HEARTBEAT_SECONDS:
            last = time.monotonic()
            yield b": still there\n\n"


def _event(texts: StoreTexts, change: Change) -> bytes:
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
