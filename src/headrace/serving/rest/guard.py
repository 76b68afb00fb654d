"""Who may ask, and how much at once: in front of every endpoint."""

from __future__ import annotations

import hmac

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.serving.config import ServingConfig
from headrace.serving.peers import TOKEN_HEADER
from headrace.serving.rest.problems import RETRY_SECONDS, Problem

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
INTERNAL = "/internal/"
_PEER_HEADER = TOKEN_HEADER.lower().encode()
_PEER_BODIES = 4
"""How many times larger a peer's request may be: keys that clients sent are longer between peers."""
_NOT_ALLOWED = 1008


class Guard:
    """Checks tokens, sizes and the number of requests; what does not pass is told why."""

    def __init__(self, app: ASGIApp, config: ServingConfig) -> None:
        self._app = app
        self._token = None if config.token is None else f"Bearer {config.token}".encode()
        self._peer_token = (config.shown_to_peers or "").encode()
        self._max_requests = config.max_requests
        self._max_body = config.max_body_bytes
        self._requests = {False: 0, True: 0}
        """By whether peers asked: those of clients do not keep peers from getting their answers."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._open_websocket(scope, receive, send)
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_peer = path_of(scope).startswith(INTERNAL)
        limit = self._max_body * (_PEER_BODIES if is_peer else 1)
        refusal = self._refusal(scope, is_peer, limit)
        if refusal is not None:
            await refusal.response()(scope, receive, send)
            return
        self._requests[is_peer] += 1
        try:
            await self._app(scope, _limited(receive, limit), send)
        finally:
            self._requests[is_peer] -= 1

    async def _open_websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._is_client(dict(scope["headers"])):
            await self._app(scope, receive, send)
            return
        await receive()
        await send({"type": "websocket.close", "code": _NOT_ALLOWED})

    def _refusal(self, scope: Scope, is_peer: bool, limit: int) -> Problem | None:
        if path_of(scope) in OPEN_PATHS:
            return None
        headers: dict[bytes, bytes] = dict(scope["headers"])
        if is_peer:
            # Also where no token is set: a page in a browser cannot send this header without being allowed to.
            if not _same(headers.get(_PEER_HEADER), self._peer_token):
                return Problem(401, "Not allowed", "This path is for the application's own instances.")
        elif not self._is_client(headers):
            return Problem(
                401,
                "Not allowed",
                "A token is needed: Authorization: Bearer …",
                headers={"WWW-Authenticate": "Bearer"},
            )
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length[:20]) > limit:
            return _too_large(limit)
        if self._requests[is_peer] >= self._max_requests:
            return Problem(
                503,
                "Too many requests at once",
                f"The instance works on {self._max_requests} requests already.",
                headers={"Retry-After": str(RETRY_SECONDS)},
            )
        return None

    def _is_client(self, headers: dict[bytes, bytes]) -> bool:
        return self._token is None or _same(headers.get(b"authorization"), self._token)


def path_of(scope: Scope) -> str:
    """The path as endpoints are found by: without what the application, as a part of another one, is found under."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path[len(root) :] if root and path.startswith(f"{root}/") else path


def _same(given: bytes | None, expected: bytes) -> bool:
    return given is not None and hmac.compare_digest(given, expected)


def _too_large(limit: int) -> Problem:
    return Problem(413, "Too large", f"A request may have {limit} bytes at most.")


def _limited(receive: Receive, limit: int) -> Receive:
    """Ends a request whose body turns out longer than it may be."""
    seen = 0

    async def limited() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > limit:
            # Of this kind, as FastAPI makes a wrong request of any other error in a body.
            raise HTTPException(413, f"A request may have {limit} bytes at most.")
        return message

    return limited
