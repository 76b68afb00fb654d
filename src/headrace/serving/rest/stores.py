"""The endpoints of stores: keys, ranges, windows, sessions, counts."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Path, Query, Request
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.responses import Response

from headrace.duration import MAX_MILLIS
from headrace.serving.off_loop import MANY_ROWS, off_loop
from headrace.serving.queries import Answer, Row
from headrace.serving.reading import ANY, Demands, Page
from headrace.serving.rest.parameters import (
    MAX_LIMIT,
    Cursor,
    Limit,
    Time,
    demands,
    read_time,
    write_position,
)
from headrace.serving.rest.problems import Problem, describe_missing
from headrace.serving.rest.schemas import answers
from headrace.serving.service import Service, StoreTexts
from headrace.serving.texts import to_json
from headrace.topology.stores import StoreKind

MAX_KEYS = 1000

StoreName = Annotated[str, Path(description="The store's name.")]
Key = Annotated[str, Path(description="The key: text as it is, numbers as numbers, anything else as JSON.")]
Freshness = Annotated[Demands, Depends(demands)]


class _KeyConvertor(PathConvertor):
    """The rest of a path, whatever is in it: slashes and line ends too."""

    regex = "(?s:.*)"


register_url_convertor("key", _KeyConvertor())
router = APIRouter(prefix="/v1/stores", tags=["stores"])


def service_of(request: Request) -> Service:
    """The instance's service."""
    service: Service = request.app.state.service
    return service


def answer(content: Any, status: int = 200) -> Response:
    """An answer in JSON."""
    return Response(to_json(content), status, media_type="application/json")


@router.get("", summary="The stores that can be asked", responses=answers("Stores"))
async def list_stores(request: Request) -> Response:
    service = service_of(request)
    return answer({"stores": [describe(service, name) for name in sorted(service.instance.stores)]})


@router.get("/{store}", summary="What a store is", responses=answers("Store", 404))
async def describe_store(request: Request, store: StoreName) -> Response:
    service = service_of(request)
    service.reader.store(store)
    return answer(describe(service, store))


@router.get("/{store}/count", summary="About how many entries there are", responses=answers("Count", 400, 404))
async def count(request: Request, store: StoreName, freshness: Freshness) -> Response:
    found = await service_of(request).reader.count(store, freshness)
    return answer({"store": store, "count": found.count, **_completeness(found.refused), **_freshness(found)})


@router.get(
    "/{store}/keys",
    summary="Keys in the order of their bytes: all, a range, or those with a prefix",
    responses=answers("Page", 400, 404),
)
async def scan(
    request: Request,
    store: StoreName,
    freshness: Freshness,
    low: Annotated[str | None, Query(alias="from", description="The first key.")] = None,
    high: Annotated[str | None, Query(alias="to", description="The last key, included.")] = None,
    prefix: Annotated[str | None, Query(description="What the keys begin with.")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    service = service_of(request)
    service.reader.store(store)
    if prefix is not None and (low is not None or high is not None):
        raise Problem(400, "Bad Request", "Give either prefix, or from and to")
    texts = service.texts[store]
    page = await service.reader.scan(
        store,
        low=None if low is None else texts.key.from_text(low),
        high=None if high is None else texts.key.from_text(high),
        prefix=None if prefix is None else _prefix(texts, prefix),
        limit=limit,
        cursor=cursor,
        demands=freshness,
    )
    return await _answer_page(texts, page)


@router.post("/{store}/keys", summary="The values of many keys", responses=answers("ManyAnswer", 400, 404, 413))
async def get_many(
    request: Request,
    store: StoreName,
    freshness: Freshness,
    keys: Annotated[list[Any], Body(embed=True, max_length=MAX_KEYS, description="The keys.")],
) -> Response:
    service = service_of(request)
    service.reader.store(store)
    texts = service.texts[store]
    wanted = [texts.key.from_json(key) for key in keys]
    found = await service.reader.get_many(store, wanted, freshness)
    return await off_loop(len(found.rows) > MANY_ROWS, lambda: answer(_many(texts, wanted, found)))


@router.get("/{store}/keys/{key:key}", summary="The value of a key", responses=answers("KeyAnswer", 400, 404))
async def get(
    request: Request,
    store: StoreName,
    key: Key,
    freshness: Freshness,
    as_of: Annotated[Time, Query(description="The time of the value, in a versioned store.")] = None,
) -> Response:
    moment = None if as_of is None else read_time(as_of, 0, "as_of")
    return await read_key(service_of(request), store, key, freshness, moment)


async def read_key(
    service: Service, store: str, key: str, demands: Demands = ANY, as_of: int | None = None
) -> Response:
    """The value of a key that is written as text."""
    service.reader.store(store)
    texts = service.texts[store]
    found = await service.reader.get(store, texts.key.from_text(key), demands, as_of)
    if not found.rows:
        raise Problem(404, "No such key", f"Store {store} has no value for this key.", **_freshness(found))
    return answer({**_entry(texts, found.rows[0]), **_freshness(found)})


@router.get(
    "/{store}/windows",
    summary="The windows of all keys that start within a span of time",
    responses=answers("Page", 400, 404),
)
async def windows_of_all(
    request: Request,
    store: StoreName,
    freshness: Freshness,
    start: Annotated[Time, Query(alias="from")] = None,
    end: Annotated[Time, Query(alias="to")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    return await _within(request, store, freshness, start, end, limit, cursor, sessions=False)


@router.get(
    "/{store}/windows/{key:key}",
    summary="The windows of a key that start within a span of time",
    responses=answers("Page", 400, 404),
)
async def windows(
    request: Request,
    store: StoreName,
    key: Key,
    freshness: Freshness,
    start: Annotated[Time, Query(alias="from")] = None,
    end: Annotated[Time, Query(alias="to")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    service = service_of(request)
    service.reader.store(store)
    texts = service.texts[store]
    page = await service.reader.windows(
        store, texts.key.from_text(key), *_span(start, end), limit=limit, cursor=cursor, demands=freshness
    )
    return await _answer_page(texts, page)


@router.get(
    "/{store}/sessions",
    summary="The sessions of all keys that have a part in a span of time",
    responses=answers("Page", 400, 404),
)
async def sessions_of_all(
    request: Request,
    store: StoreName,
    freshness: Freshness,
    start: Annotated[Time, Query(alias="from")] = None,
    end: Annotated[Time, Query(alias="to")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    return await _within(request, store, freshness, start, end, limit, cursor, sessions=True)


@router.get(
    "/{store}/sessions/{key:key}",
    summary="The sessions of a key that have a part in a span of time",
    responses=answers("Page", 400, 404),
)
async def sessions(
    request: Request,
    store: StoreName,
    key: Key,
    freshness: Freshness,
    start: Annotated[Time, Query(alias="from")] = None,
    end: Annotated[Time, Query(alias="to")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    service = service_of(request)
    service.reader.store(store)
    texts = service.texts[store]
    page = await service.reader.sessions(
        store, texts.key.from_text(key), *_span(start, end), limit=limit, cursor=cursor, demands=freshness
    )
    return await _answer_page(texts, page)


async def _within(
    request: Request,
    store: str,
    freshness: Demands,
    start: str | None,
    end: str | None,
    limit: int,
    cursor: str | None,
    *,
    sessions: bool,
) -> Response:
    service = service_of(request)
    kind = service.reader.store(store).spec.kind
    if sessions != (kind is StoreKind.SESSION):
        raise Problem(400, "Not for this kind of store", f"Store {store} is a {kind.value} store.")
    page = await service.reader.times(store, *_span(start, end), limit=limit, cursor=cursor, demands=freshness)
    return await _answer_page(service.texts[store], page)


# --- what answers look like --------------------------------------------------------------------------------------


def describe(service: Service, name: str) -> dict[str, Any]:
    """A store as it is listed."""
    store = service.instance.stores[name]
    texts = service.texts[name]
    described: dict[str, Any] = {
        "name": name,
        "kind": store.spec.kind.value,
        "key": texts.key.name,
        "value": texts.value.name,
        "key_form": texts.key.form,
        "partitions": service.instance.partitions(name),
        "global": store.is_global,
        "topic": store.topic,
    }
    if store.spec.retention_ms:
        described["retention_ms"] = store.spec.retention_ms
    if store.spec.window_size_ms:
        described["window_size_ms"] = store.spec.window_size_ms
    return described


def _entry(texts: StoreTexts, row: Row) -> dict[str, Any]:
    entry = {"key": texts.key.to_json(row.key), **texts.value_to_json(row.value)}
    if row.timestamp is not None:
        entry["timestamp"] = row.timestamp
    if row.start is not None:
        entry["window"] = {"start": row.start, "end": row.end}
    return entry


async def _answer_page(texts: StoreTexts, page: Page) -> Response:
    return await off_loop(len(page.rows) > MANY_ROWS, lambda: answer(_page(texts, page)))


def _page(texts: StoreTexts, page: Page) -> dict[str, Any]:
    return {
        "entries": [_entry(texts, row) for row in page.rows],
        "next": page.cursor,
        **_completeness(page.missing),
        **_freshness(page),
    }


def _many(texts: StoreTexts, wanted: list[bytes], found: Answer) -> dict[str, Any]:
    known = {row.key for row in found.rows}
    return {
        "entries": [_entry(texts, row) for row in found.rows],
        "absent": [texts.key.to_json(key) for key in dict.fromkeys(wanted) if key not in known],
        **_freshness(found),
    }


def _freshness(found: Answer | Page) -> dict[str, Any]:
    return {"position": write_position(found.positions), "staleness_ms": found.staleness_ms}


def _completeness(missing: Any) -> dict[str, Any]:
    return {"complete": not missing, "missing": describe_missing(missing)}


def _span(start: str | None, end: str | None) -> tuple[int, int]:
    return read_time(start, 0, "from"), read_time(end, MAX_MILLIS, "to")


def _prefix(texts: StoreTexts, prefix: str) -> bytes:
    if texts.key.name != "string":
        raise Problem(400, "Bad Request", f"Keys of this store are {texts.key.description}: a prefix needs text keys")
    return prefix.encode()


__all__ = ["MAX_KEYS", "MAX_LIMIT", "answer", "describe", "read_key", "router", "service_of"]
