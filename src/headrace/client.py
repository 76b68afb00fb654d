"""Asks the stores of a running application over REST, from any program: `Client` and `AsyncClient`.

```python
from headrace.client import Client

with Client("http://127.0.0.1:8080") as client:
    client.store("general_orders_count").get("store_1234")
```
Any instance will do; several addresses may be given, and the next one is asked when one does not answer.
"""

from __future__ import annotations

import asyncio
import base64
import json
import math
import ssl
import time
from collections.abc import AsyncIterator, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import quote
from uuid import UUID

import httpx

from headrace.errors import HeadraceError

__all__ = ["AsyncClient", "Change", "Client", "ClientError", "Entry", "KeyText"]

T = TypeVar("T")
Time = int | str | None
"""Milliseconds since 1970, or a date and time of ISO 8601."""

_PAGE = 1000
_PAUSE_SECONDS = 0.2
_SILENCE_SECONDS = 30.0
"""How long a stream of changes may say nothing at all: instances say every ten seconds that they are there."""

_NO_ANSWER = (httpx.TransportError, OSError)
"""The latter where a connection is lost in the moment in which it is made: httpx passes that on as it is."""
_ENDINGS = {"gap": 410, "behind": 503}
"""Events that end a stream of changes: some were deleted before they were sent, or were not read fast enough."""


class ClientError(HeadraceError):
    """The application did not answer, or refused; `status` and `problem` have what it said."""

    def __init__(self, message: str, status: int | None = None, problem: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.problem = problem or {}


class KeyText(str):
    """A key as the service reads it from an address, such as one that a user typed: numbers and JSON as text."""


@dataclass(frozen=True)
class Entry:
    """A key with its value; of a window or session store with its window."""

    key: Any
    value: Any
    timestamp: int | None = None
    window: tuple[int, int] | None = None


@dataclass(frozen=True)
class Change:
    """A change of a store, and the position to go on from after it."""

    key: Any
    value: Any
    timestamp: int
    partition: int
    offset: int
    position: str
    window: tuple[int, int] | None = None


@dataclass(frozen=True)
class _Request:
    method: str
    path: str
    parameters: dict[str, Any] = field(default_factory=dict)
    body: Any = None
    may_be_absent: bool = False


_Steps = Generator[_Request, Any, T]
"""What to ask one after the other: it yields requests and is sent their answers."""


@dataclass(frozen=True)
class _Span:
    """What pages are asked for: a path below the store, perhaps a key behind it, and parameters."""

    path: str
    key: Any = None
    keys: dict[str, Any] = field(default_factory=dict)
    """Parameters that are keys."""
    parameters: dict[str, Any] = field(default_factory=dict)


class _StoreSteps:
    """What is asked of a store, for both kinds of clients."""

    def __init__(self, name: str, demands: dict[str, Any], forms: dict[str, str]) -> None:
        self._name = name
        self._path = f"/v1/stores/{quote(name, safe='')}"
        self._demands = demands
        self._forms = forms

    def entry(self, key: Any, as_of: Time) -> _Steps[Entry | None]:
        text = yield from self._text(key)
        parameters = self._demands if as_of is None else {**self._demands, "as_of": as_of}
        found = yield _Request("GET", f"{self._path}/keys/{_quoted(text)}", parameters, may_be_absent=True)
        return None if found is None else _entry(found)

    def get_many(self, keys: Iterable[Any]) -> _Steps[list[Entry]]:
        wanted = [_plain(key) for key in keys]
        entries: list[Entry] = []
        for first in range(0, len(wanted), _PAGE):
            body = {"keys": wanted[first : first + _PAGE]}
            found = yield _Request("POST", f"{self._path}/keys", self._demands, body)
            entries += [_entry(each) for each in found["entries"]]
        return entries

    def count(self) -> _Steps[int]:
        found = yield _Request("GET", f"{self._path}/count", self._demands)
        count: int = found["count"]
        return count

    def page(self, span: _Span, cursor: str | None) -> _Steps[tuple[list[Entry], str | None]]:
        path = f"{self._path}/{span.path}"
        if span.key is not None:
            path += "/" + _quoted((yield from self._text(span.key)))
        wanted = {**self._demands, **span.parameters, "limit": _PAGE, "cursor": cursor}
        for name, key in span.keys.items():
            if key is not None:
                wanted[name] = yield from self._text(key)
        found = yield _Request("GET", path, {name: value for name, value in wanted.items() if value is not None})
        return [_entry(each) for each in found["entries"]], found["next"]

    @staticmethod
    def keys(low: Any = None, high: Any = None, prefix: str | None = None) -> _Span:
        return _Span("keys", keys={"from": low, "to": high}, parameters={"prefix": prefix})

    @staticmethod
    def times(kind: str, key: Any, from_ms: Time, to_ms: Time) -> _Span:
        return _Span(kind, key, parameters={"from": from_ms, "to": to_ms})

    @property
    def changes(self) -> str:
        return f"{self._path}/changes"

    def _text(self, key: Any) -> _Steps[str]:
        """A key as text: of a text, only the store knows whether it is meant as text or as JSON."""
        if isinstance(key, KeyText):
            return str(key)
        plain = _plain(key)
        if not isinstance(plain, str):
            return json.dumps(plain)
        if self._name not in self._forms:
            self._forms[self._name] = (yield _Request("GET", self._path))["key_form"]
        return plain if self._forms[self._name] == "text" else json.dumps(plain)


class _Connection:
    """The addresses to ask, and how answers are read."""

    def __init__(
        self, addresses: str | Iterable[str], token: str | None, timeout: float, authority: str | Path | None
    ) -> None:
        given = [addresses] if isinstance(addresses, str) else list(addresses)
        if not given:
            raise ClientError("No address was given: Client('http://127.0.0.1:8080')")
        self.addresses = [each.rstrip("/") if "://" in each else f"http://{each.rstrip('/')}" for each in given]
        self.headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self.timeout = timeout
        self.tls: Any = True if authority is None else ssl.create_default_context(cafile=str(authority))
        self.forms: dict[str, str] = {}
        """By store, whether its keys are given as text or as JSON."""
        self._turn = 0

    @property
    def address(self) -> str:
        return self.addresses[self._turn % len(self.addresses)]

    def next_address(self) -> None:
        self._turn += 1

    def arguments(self, request: _Request, left: float) -> dict[str, Any]:
        # An address that does not answer leaves time for another one.
        seconds = left if len(self.addresses) == 1 else left / 2
        return {
            "method": request.method,
            "url": self.address + request.path,
            "params": {name: _parameter(value) for name, value in request.parameters.items()},
            "json": request.body,
            "timeout": max(0.1, seconds),
        }

    def read(self, request: _Request, response: httpx.Response) -> Any:
        if response.is_success:
            found = response.json()
            _check_complete(found)
            return found
        problem = _problem(response)
        if request.may_be_absent and response.status_code == 404 and problem.get("title") == "No such key":
            return None
        detail = problem.get("detail") or response.reason_phrase
        raise ClientError(f"{self.address} answered {response.status_code}: {detail}", response.status_code, problem)

    def pause_before_retry(self, error: Exception, deadline: float) -> float:
        """How long to wait before asking again; raises where that is of no use."""
        if isinstance(error, ClientError) and error.status != 503:
            raise error
        self.next_address()
        if time.monotonic() + _PAUSE_SECONDS >= deadline:
            if isinstance(error, ClientError):
                raise error
            raise ClientError(f"{', '.join(self.addresses)} did not answer: {type(error).__name__} {error}") from error
        return _PAUSE_SECONDS


class Client:
    """Asks an application's stores. A context manager: it closes its connections on leaving."""

    def __init__(
        self,
        addresses: str | Iterable[str],
        *,
        token: str | None = None,
        timeout: float = 10.0,
        tls_authority: str | Path | None = None,
    ) -> None:
        self._connection = _Connection(addresses, token, timeout, tls_authority)
        self._http = httpx.Client(headers=self._connection.headers, verify=self._connection.tls)

    def store(self, name: str, **demands: Any) -> ClientStore:
        """A store; `demands` are those of REST: allow_stale, min_position, max_staleness_ms."""
        return ClientStore(self, _StoreSteps(name, demands, self._connection.forms))

    def stores(self) -> list[dict[str, Any]]:
        """The stores that can be asked."""
        found: list[dict[str, Any]] = self._ask(_Request("GET", "/v1/stores"))["stores"]
        return found

    def instances(self) -> list[dict[str, Any]]:
        """Every instance with its partitions, state and lag."""
        found: list[dict[str, Any]] = self._ask(_Request("GET", "/v1/instances"))["instances"]
        return found

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, steps: _Steps[T]) -> T:
        try:
            request = next(steps)
            while True:
                request = steps.send(self._ask(request))
        except StopIteration as end:
            result: T = end.value
            return result

    def _ask(self, request: _Request) -> Any:
        connection = self._connection
        deadline = time.monotonic() + connection.timeout
        told: Exception | None = None
        while True:
            try:
                left = deadline - time.monotonic()
                return connection.read(request, self._http.request(**connection.arguments(request, left)))
            except (*_NO_ANSWER, ClientError) as error:
                told = _telling(told, error)
                time.sleep(connection.pause_before_retry(told, deadline))

    def _stream(self, path: str, position: str | None) -> Iterator[Change]:
        subscription = _Subscription(self._connection, path, position)
        while True:
            try:
                with self._http.stream(**subscription.arguments()) as response:
                    if not response.is_success:
                        response.read()
                        self._connection.read(_Request("GET", path), response)
                    for data in response.iter_bytes():
                        yield from subscription.take(data)
                subscription.ended()
            except (*_NO_ANSWER, ClientError) as error:
                time.sleep(subscription.pause_before_retry(error))


class ClientStore:
    """A store of an application."""

    def __init__(self, client: Client, steps: _StoreSteps) -> None:
        self._client = client
        self._steps = steps

    def get(self, key: Any, as_of: Time = None) -> Any:
        """The value of the key, None where it has none."""
        entry = self.entry(key, as_of)
        return None if entry is None else entry.value

    def entry(self, key: Any, as_of: Time = None) -> Entry | None:
        """The key with its value and its time."""
        return self._client._run(self._steps.entry(key, as_of))

    def get_many(self, keys: Iterable[Any]) -> list[Entry]:
        """Those of the keys that have a value."""
        return self._client._run(self._steps.get_many(keys))

    def count(self) -> int:
        """About how many entries there are."""
        return self._client._run(self._steps.count())

    def all(self) -> Iterator[Entry]:
        """Every key, in the order of the serialized keys."""
        return self._pages(self._steps.keys())

    def range(self, low: Any, high: Any) -> Iterator[Entry]:
        """The keys from `low` to `high`, both included; None leaves an end open."""
        return self._pages(self._steps.keys(low, high))

    def prefix(self, prefix: str) -> Iterator[Entry]:
        """The keys that begin with the prefix."""
        return self._pages(self._steps.keys(prefix=prefix))

    def windows(self, key: Any = None, from_ms: Time = None, to_ms: Time = None) -> Iterator[Entry]:
        """The windows of a key, or of all keys, that start within these times."""
        return self._pages(self._steps.times("windows", key, from_ms, to_ms))

    def sessions(self, key: Any = None, from_ms: Time = None, to_ms: Time = None) -> Iterator[Entry]:
        """The sessions of a key, or of all keys, that have a part within these times."""
        return self._pages(self._steps.times("sessions", key, from_ms, to_ms))

    def changes(self, position: str | None = None) -> Iterator[Change]:
        """The changes from a position on (`beginning` for all of them), whichever instance tells them.

        It does not end by itself; ClientError when no instance has answered for as long as the timeout.
        """
        return self._client._stream(self._steps.changes, position)

    def _pages(self, span: _Span) -> Iterator[Entry]:
        cursor = None
        while True:
            entries, cursor = self._client._run(self._steps.page(span, cursor))
            yield from entries
            if cursor is None:
                return


class AsyncClient:
    """Asks an application's stores from asynchronous programs."""

    def __init__(
        self,
        addresses: str | Iterable[str],
        *,
        token: str | None = None,
        timeout: float = 10.0,
        tls_authority: str | Path | None = None,
    ) -> None:
        self._connection = _Connection(addresses, token, timeout, tls_authority)
        self._http = httpx.AsyncClient(headers=self._connection.headers, verify=self._connection.tls)

    def store(self, name: str, **demands: Any) -> AsyncClientStore:
        """A store; `demands` are those of REST: allow_stale, min_position, max_staleness_ms."""
        return AsyncClientStore(self, _StoreSteps(name, demands, self._connection.forms))

    async def stores(self) -> list[dict[str, Any]]:
        """The stores that can be asked."""
        found: list[dict[str, Any]] = (await self._ask(_Request("GET", "/v1/stores")))["stores"]
        return found

    async def instances(self) -> list[dict[str, Any]]:
        """Every instance with its partitions, state and lag."""
        found: list[dict[str, Any]] = (await self._ask(_Request("GET", "/v1/instances")))["instances"]
        return found

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _run(self, steps: _Steps[T]) -> T:
        try:
            request = next(steps)
            while True:
                request = steps.send(await self._ask(request))
        except StopIteration as end:
            result: T = end.value
            return result

    async def _ask(self, request: _Request) -> Any:
        connection = self._connection
        deadline = time.monotonic() + connection.timeout
        told: Exception | None = None
        while True:
            try:
                left = deadline - time.monotonic()
                return connection.read(request, await self._http.request(**connection.arguments(request, left)))
            except (*_NO_ANSWER, ClientError) as error:
                told = _telling(told, error)
                await asyncio.sleep(connection.pause_before_retry(told, deadline))

    async def _stream(self, path: str, position: str | None) -> AsyncIterator[Change]:
        subscription = _Subscription(self._connection, path, position)
        while True:
            try:
                async with self._http.stream(**subscription.arguments()) as response:
                    if not response.is_success:
                        await response.aread()
                        self._connection.read(_Request("GET", path), response)
                    async for data in response.aiter_bytes():
                        for change in subscription.take(data):
                            yield change
                subscription.ended()
            except (*_NO_ANSWER, ClientError) as error:
                await asyncio.sleep(subscription.pause_before_retry(error))


class AsyncClientStore:
    """A store of an application."""

    def __init__(self, client: AsyncClient, steps: _StoreSteps) -> None:
        self._client = client
        self._steps = steps

    async def get(self, key: Any, as_of: Time = None) -> Any:
        """The value of the key, None where it has none."""
        entry = await self.entry(key, as_of)
        return None if entry is None else entry.value

    async def entry(self, key: Any, as_of: Time = None) -> Entry | None:
        """The key with its value and its time."""
        return await self._client._run(self._steps.entry(key, as_of))

    async def get_many(self, keys: Iterable[Any]) -> list[Entry]:
        """Those of the keys that have a value."""
        return await self._client._run(self._steps.get_many(keys))

    async def count(self) -> int:
        """About how many entries there are."""
        return await self._client._run(self._steps.count())

    def all(self) -> AsyncIterator[Entry]:
        """Every key, in the order of the serialized keys."""
        return self._pages(self._steps.keys())

    def range(self, low: Any, high: Any) -> AsyncIterator[Entry]:
        """The keys from `low` to `high`, both included; None leaves an end open."""
        return self._pages(self._steps.keys(low, high))

    def prefix(self, prefix: str) -> AsyncIterator[Entry]:
        """The keys that begin with the prefix."""
        return self._pages(self._steps.keys(prefix=prefix))

    def windows(self, key: Any = None, from_ms: Time = None, to_ms: Time = None) -> AsyncIterator[Entry]:
        """The windows of a key, or of all keys, that start within these times."""
        return self._pages(self._steps.times("windows", key, from_ms, to_ms))

    def sessions(self, key: Any = None, from_ms: Time = None, to_ms: Time = None) -> AsyncIterator[Entry]:
        """The sessions of a key, or of all keys, that have a part within these times."""
        return self._pages(self._steps.times("sessions", key, from_ms, to_ms))

    def changes(self, position: str | None = None) -> AsyncIterator[Change]:
        """The changes from a position on (`beginning` for all of them), whichever instance tells them.

        It does not end by itself; ClientError when no instance has answered for as long as the timeout.
        """
        return self._client._stream(self._steps.changes, position)

    async def _pages(self, span: _Span) -> AsyncIterator[Entry]:
        cursor = None
        while True:
            entries, cursor = await self._client._run(self._steps.page(span, cursor))
            for entry in entries:
                yield entry
            if cursor is None:
                return


class _Subscription:
    """Server-sent events of a store, over as many connections as it takes."""

    def __init__(self, connection: _Connection, path: str, position: str | None) -> None:
        self._connection = connection
        self._path = path
        self._position = self._id = position
        self._seen = b""
        self._event = self._data = ""
        self._heard_at = time.monotonic()

    def arguments(self) -> dict[str, Any]:
        """What is asked for next."""
        self._seen, self._id, self._data = b"", self._position, ""
        return {
            "method": "GET",
            "url": self._connection.address + self._path,
            "params": {} if self._position is None else {"position": self._position},
            "timeout": httpx.Timeout(self._connection.timeout, read=_SILENCE_SECONDS),
        }

    def take(self, data: bytes) -> Iterator[Change]:
        """Takes in what has come; the changes that it completes."""
        self._heard_at = time.monotonic()
        *lines, self._seen = (self._seen + data).split(b"\n")
        for line in lines:
            name, _, content = line.decode().partition(":")
            content = content.removeprefix(" ")
            if name == "id":
                self._id = content
            elif name == "event":
                self._event = content
            elif name == "data":
                self._data = content
            elif not line:
                # Only now is the event whole: a connection that breaks before has not told it.
                self._position, told, self._data = self._id, self._data, ""
                if told and self._event in _ENDINGS:
                    raise ClientError(json.loads(told)["detail"], _ENDINGS[self._event])
                if told:
                    yield _change(json.loads(told), self._position or "")

    def ended(self) -> None:
        """The instance has ended the stream, as it ends itself."""
        raise ClientError(f"{self._connection.address} has ended", 503)

    def pause_before_retry(self, error: Exception) -> float:
        """How long to wait before asking the next instance; raises where that is of no use."""
        return self._connection.pause_before_retry(error, self._heard_at + self._connection.timeout)


def _telling(before: Exception | None, error: Exception) -> Exception:
    """The error to raise if it is the last: an attempt that was cut short tells less than the one before it."""
    return before if before is not None and isinstance(error, httpx.TimeoutException) else error


def _change(found: dict[str, Any], position: str) -> Change:
    return Change(
        found["key"],
        found["value"],
        found["timestamp"],
        found["partition"],
        found["offset"],
        position,
        _window(found),
    )


def _entry(found: dict[str, Any]) -> Entry:
    return Entry(found["key"], found["value"], found.get("timestamp"), _window(found))


def _window(found: dict[str, Any]) -> tuple[int, int] | None:
    window = found.get("window")
    return None if window is None else (window["start"], window["end"])


def _check_complete(found: dict[str, Any]) -> None:
    if not found.get("complete", True):
        missing = "; ".join(f"partition {each['partition']}: {each['detail']}" for each in found["missing"])
        raise ClientError(f"The answer is not complete: {missing}", 503, found)


def _problem(response: httpx.Response) -> dict[str, Any]:
    try:
        problem = response.json()
    except ValueError:
        return {}
    return problem if isinstance(problem, dict) else {}


def _plain(key: Any) -> Any:
    """A key in terms of JSON, as the service takes it."""
    if isinstance(key, bytes):
        return base64.urlsafe_b64encode(key).decode()
    if isinstance(key, UUID):
        return str(key)
    if isinstance(key, float) and not math.isfinite(key):
        return str(key)
    return key


def _quoted(text: str) -> str:
    # A dot alone would be taken for a place in the path.
    return quote(text, safe="").replace(".", "%2E")


def _parameter(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value
