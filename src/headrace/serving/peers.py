"""Asks peers over HTTP."""

from __future__ import annotations

import asyncio
import ssl
from typing import TypeVar
from weakref import WeakKeyDictionary

import httpx
import msgspec

from headrace.serving.off_loop import LARGE_BYTES, off_loop
from headrace.serving.queries import Answer, Query
from headrace.serving.routing import PeerError
from headrace.serving.signing import SIGNATURE_HEADER, PeerSigner
from headrace.serving.status import InstanceStatus

QUERY_PATH = "/internal/v1/query"
STATUS_PATH = "/internal/v1/status"
SHUTDOWN_PATH = "/internal/v1/shutdown"
APPLICATION_HEADER = "Headrace-Application"

_SHUTDOWN_SECONDS = 2.0

_encode = msgspec.json.encode
_answer = msgspec.json.Decoder(Answer)
_status = msgspec.json.Decoder(InstanceStatus)

T = TypeVar("T")


class HttpPeers:
    """Peers at their addresses, over connections that are kept."""

    def __init__(self, application_id: str, secret: bytes, tls: ssl.SSLContext | None = None) -> None:
        self._scheme = "http" if tls is None else "https"
        self._tls = tls
        self._signer = PeerSigner(secret, application_id)
        self._headers = {APPLICATION_HEADER: application_id, "Content-Type": "application/json"}
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient] = WeakKeyDictionary()
        """By event loop, as connections belong to one."""

    async def ask(self, address: str, query: Query, timeout: float) -> Answer:
        """What the peer's own copies have to say."""
        content = await self._request("POST", address, QUERY_PATH, timeout, _encode(query))
        return await off_loop(len(content) > LARGE_BYTES, lambda: _read(content, _answer))

    async def status(self, address: str, timeout: float) -> InstanceStatus:
        """How the peer does."""
        return _read(await self._request("GET", address, STATUS_PATH, timeout), _status)

    async def shutdown(self, address: str) -> None:
        """Has the peer end."""
        await self._request("POST", address, SHUTDOWN_PATH, _SHUTDOWN_SECONDS)

    async def close(self) -> None:
        """Closes the connections of the running event loop."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    async def _request(self, method: str, address: str, path: str, timeout: float, content: bytes = b"") -> bytes:
        headers = self._signer.sign(address, method, path, content)
        try:
            # httpx's own timeout is one for each step.
            asked = self._client().request(
                method, f"{self._scheme}://{address}{path}", content=content, timeout=timeout, headers=headers
            )
            response = await asyncio.wait_for(asked, timeout)
        except (httpx.HTTPError, httpx.InvalidURL, asyncio.TimeoutError, OSError) as error:
            # httpx passes an OSError on where a connection is lost in the moment in which it is made.
            raise PeerError(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__) from error
        if response.status_code != 200:
            raise PeerError(f"it answered {response.status_code}{_reason(response)}")
        answered, status, found = response.headers.get(SIGNATURE_HEADER), response.status_code, response.content
        is_signed = await off_loop(
            len(found) > LARGE_BYTES, lambda: self._signer.is_answer(headers, status, found, answered)
        )
        if not is_signed:
            raise PeerError("its answer is not signed by an instance of the application")
        return found

    def _client(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            # Peers are addressed as they are: no proxy, no redirect to somewhere else.
            client = self._clients[loop] = httpx.AsyncClient(
                headers=self._headers,
                verify=True if self._tls is None else self._tls,
                trust_env=False,
                follow_redirects=False,
                limits=httpx.Limits(max_connections=256, max_keepalive_connections=64),
            )
        return client


def _reason(response: httpx.Response) -> str:
    """Why a peer does not believe this instance: clocks that differ are for somebody to mend."""
    if response.status_code != 401:
        return ""
    try:
        return f": {msgspec.json.decode(response.content)['detail']}"
    except (msgspec.MsgspecError, KeyError, TypeError):
        return ""


def _read(content: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    try:
        return decoder.decode(content)
    except msgspec.MsgspecError as error:
        raise PeerError(f"its answer cannot be read: {error}") from error
