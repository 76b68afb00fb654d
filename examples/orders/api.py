"""The endpoints of the orders application, on every instance; each answers for the whole application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any

import msgspec
from confluent_kafka import Producer
from fastapi import APIRouter, Depends, HTTPException, Query, Request
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from headrace import Window, Windowed
from headrace.errors import SerializationError
from headrace.fastapi import AsyncStore, Service, service

from .models import EPOCH, Order, OrderType, TotalRevenue
from .pipeline import GENERAL, GRACE, ORDERS, RESTAURANT, WINDOW, order_json, text

router = APIRouter(prefix="/v1/orders", tags=["orders"])

_MILLISECOND = timedelta(milliseconds=1)
_SEND_SECONDS = 10.0
_producers: dict[str, Producer] = {}


# --- what is asked for -------------------------------------------------------------------------------------------


class Kind(str, Enum):
    """The type of orders, as topics and stores are named after it."""

    GENERAL = GENERAL
    RESTAURANT = RESTAURANT


Shop = Annotated[Service, service()]
Location = Annotated[str | None, Query(description="Of this location alone.", examples=["store_1234"])]


def span(
    start: Annotated[datetime | None, Query(alias="from", description="The first start of a window; UTC.")] = None,
    end: Annotated[datetime | None, Query(alias="to", description="The last start of a window; UTC.")] = None,
) -> dict[str, int]:
    """The times between which windows start."""
    given = {name: millis(when) for name, when in (("from_ms", start), ("to_ms", end)) if when is not None}
    if given.get("from_ms", 0) > given.get("to_ms", given.get("from_ms", 0)):
        raise HTTPException(400, "`from` is after `to`.")
    return given


Span = Annotated[dict[str, int], Depends(span)]


# --- what is answered --------------------------------------------------------------------------------------------


class Answer(BaseModel):
    """Something about a location; of which type of orders is said where all types are asked for."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    location_id: str
    order_type: OrderType | None = None


class Count(Answer):
    """How many orders a location has."""

    order_count: int


class Revenue(Answer):
    """How many orders a location has, and what they bring in."""

    running_order_count: int
    running_revenue: Decimal


class InWindow(BaseModel):
    """The time an answer is about, its end not included."""

    start_window: datetime
    end_window: datetime


class CountInWindow(InWindow, Count):
    """How many orders a location has in a window."""


class RevenueInWindow(InWindow, Revenue):
    """What the orders of a location bring in, in a window."""


# --- from the beginning ------------------------------------------------------------------------------------------


@router.get("/count", summary="How many orders of each type the locations have", response_model_exclude_none=True)
async def counts_of_all(shop: Shop) -> list[Count]:
    return [
        Count(location_id=location, order_type=OrderType[kind.name], order_count=count)
        for kind in Kind
        async for location, count in store_of(shop, kind, "count").all()
    ]


@router.get("/count/{order_type}", summary="How many orders the locations have", response_model_exclude_none=True)
async def counts(order_type: Kind, shop: Shop, location_id: Location = None) -> list[Count] | Count:
    store = store_of(shop, order_type, "count")
    if location_id is not None:
        return Count(location_id=location_id, order_count=await get(store, order_type, location_id))
    return [Count(location_id=location, order_count=count) async for location, count in store.all()]


@router.get("/revenue", summary="What the orders of each type bring in", response_model_exclude_none=True)
async def revenues_of_all(shop: Shop) -> list[Revenue]:
    return [
        Revenue(**fields(total), order_type=OrderType[kind.name])
        for kind in Kind
        async for _, total in store_of(shop, kind, "revenue").all()
    ]


@router.get("/revenue/{order_type}", summary="What the orders bring in", response_model_exclude_none=True)
async def revenues(order_type: Kind, shop: Shop, location_id: Location = None) -> list[Revenue] | Revenue:
    store = store_of(shop, order_type, "revenue")
    if location_id is not None:
        return Revenue(**fields(await get(store, order_type, location_id)))
    return [Revenue(**fields(total)) async for _, total in store.all()]


# --- in windows --------------------------------------------------------------------------------------------------


@router.get("/windows/count", summary="How many orders of each type, by window", response_model_exclude_none=True)
async def window_counts_of_all(shop: Shop, span: Span, location_id: Location = None) -> list[CountInWindow]:
    return [
        CountInWindow(**window_fields(window), order_type=OrderType[kind.name], order_count=count)
        for kind in Kind
        async for window, count in windows_of(store_of(shop, kind, "count_windows"), span, location_id)
    ]


@router.get("/windows/count/{order_type}", summary="How many orders, by window", response_model_exclude_none=True)
async def window_counts(order_type: Kind, shop: Shop, span: Span, location_id: Location = None) -> list[CountInWindow]:
    windows = windows_of(store_of(shop, order_type, "count_windows"), span, location_id)
    return [CountInWindow(**window_fields(window), order_count=count) async for window, count in windows]


@router.get("/windows/revenue", summary="What each type brings in, by window", response_model_exclude_none=True)
async def window_revenues_of_all(shop: Shop, span: Span, location_id: Location = None) -> list[RevenueInWindow]:
    return [
        RevenueInWindow(**{**fields(total), **window_fields(window)}, order_type=OrderType[kind.name])
        for kind in Kind
        async for window, total in windows_of(store_of(shop, kind, "revenue_windows"), span, location_id)
    ]


@router.get(
    "/windows/revenue/{order_type}", summary="What orders bring in, by window", response_model_exclude_none=True
)
async def window_revenues(
    order_type: Kind, shop: Shop, span: Span, location_id: Location = None
) -> list[RevenueInWindow]:
    windows = windows_of(store_of(shop, order_type, "revenue_windows"), span, location_id)
    return [RevenueInWindow(**{**fields(total), **window_fields(window)}) async for window, total in windows]


# --- putting orders in -------------------------------------------------------------------------------------------

_EXAMPLE = {
    "orderId": 12345,
    "locationId": "store_1234",
    "finalAmount": "27.00",
    "orderType": "GENERAL",
    "orderLineItems": [{"item": "Bananas", "count": 2, "amount": "2.00"}],
    "orderedDateTime": "2026-01-05T12:00:00Z",
}
_BODY = {"required": True, "content": {"application/json": {"schema": {"type": "object"}, "example": _EXAMPLE}}}


@router.post("", status_code=202, summary="Put an order in", openapi_extra={"requestBody": _BODY})
async def put(request: Request, shop: Shop) -> dict[str, Any]:
    """Sends the order to the topic; counts and revenue follow with the next batch."""
    try:
        order: Order = order_json.deserialize(await request.body())
    except SerializationError as error:
        raise HTTPException(400, f"This is no order: {error.__cause__}") from None
    if order.made_at > datetime.now(timezone.utc) + GRACE:  # with it, the windows of all others would close
        raise HTTPException(400, f"This is no order: it is of the future, of {order.ordered_date_time}")
    await asyncio.to_thread(send, producer_of(shop), order)
    accepted: dict[str, Any] = msgspec.to_builtins(order)
    return accepted


def send(producer: Producer, order: Order) -> None:
    """Returns when Kafka has the order."""
    delivered: list[Any] = []
    producer.produce(
        ORDERS,
        order_json.serialize(order),
        text.serialize(str(order.order_id)),
        on_delivery=lambda error, _: delivered.append(error),
    )
    producer.flush(_SEND_SECONDS)
    if delivered != [None]:
        raise HTTPException(503, "Kafka did not take the order.")


def producer_of(shop: Service) -> Producer:
    """One producer for all requests to a cluster."""
    servers = shop.client_settings.bootstrap_servers
    if servers not in _producers:
        settings = shop.client_settings.producer(enable_idempotence=True, partitioner="murmur2_random")
        _producers[servers] = Producer({"log_level": 0, **settings})
    return _producers[servers]


# --- reading stores ----------------------------------------------------------------------------------------------


def store_of(shop: Service, kind: Kind, what: str) -> AsyncStore:
    """A store of one type of orders."""
    return AsyncStore(shop.reader, f"{kind.value}_{what}")


async def get(store: AsyncStore, kind: Kind, location: str) -> Any:
    """What the store has for the location."""
    found = await store.get(location)
    if found is None:
        raise HTTPException(404, f"There are no {kind.value} of location {location}.")
    return found


async def windows_of(
    store: AsyncStore, span: dict[str, int], location: str | None
) -> AsyncIterator[tuple[Windowed[str], Any]]:
    """The windows that start within the span, of one location or of all."""
    if location is None:
        async for window, value in store.fetch_all(**span):
            yield window, value
        return
    for start, value in await store.fetch(location, **span):
        yield Windowed(location, Window(start, start + WINDOW // _MILLISECOND)), value


def fields(total: TotalRevenue) -> dict[str, Any]:
    """A total as the fields of an answer."""
    return msgspec.structs.asdict(total)


def window_fields(window: Windowed[str]) -> dict[str, Any]:
    """A location's window as the fields of an answer."""
    start, end = (EPOCH + time * _MILLISECOND for time in (window.window.start, window.window.end))
    return {"location_id": window.key, "start_window": start, "end_window": end}


def millis(when: datetime) -> int:
    """Milliseconds since 1970; a time that does not say its zone is UTC."""
    known = when if when.tzinfo is not None else when.replace(tzinfo=timezone.utc)
    return max(0, (known - EPOCH) // _MILLISECOND)
