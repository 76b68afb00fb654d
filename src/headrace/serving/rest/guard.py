"""Who may ask, and how much at once: in front of every endpoint."""

from __future__ import annotations

import hmac
import ipaddress
import logging
from hashlib import sha256

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.serving.at_work import Places
from headrace.serving.config import ServingConfig, is_loopback
from headrace.serving.off_loop import LARGE_BYTES, off_loop
from headrace.serving.rest.problems import RETRY_SECONDS, Problem
from headrace.serving.rest.sending import AnswersInFlight, PacedSend, SlowClient
from headrace.serving.signing import BODY_HEADER, SIGNATURE_HEADER, PeerChecker, Refused

logger = logging.getLogger(__name__)

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
INTERNAL = "/internal/"
_PEER_BODIES = 4
"""How many times larger a peer's request may be: keys that clients sent are longer between peers."""
_NOT_ALLOWED = 1008

Headers = dict[bytes, bytes]


class Guard:
    """Checks tokens, signatures, sizes and the number of requests; what does not pass is told why."""

    def __init__(self, app: ASGIApp, config: ServingConfig, checker: PeerChecker) -> None:
        self._app = app
        self._checker = checker
        self._token = None if config.token is None else f"Bearer {config.token}".encode()
        self._max_body = config.max_body_bytes
        self._places = {is_peer: Places(config.max_requests) for is_peer in (False, True)}
        """By whether peers asked: requests of clients do not keep peers from getting their answers."""
        self._answers = {is_peer: AnswersInFlight(config.max_sending_bytes) for is_peer in (False, True)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._open_websocket(scope, receive, send)
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_peer = path_of(scope).startswith(INTERNAL)
        limit = self._max_body * (_PEER_BODIES if is_peer else 1)
        headers: Headers = dict(scope["headers"])
        try:
            signature = self._admit(scope, headers, is_peer, limit)
        except Problem as refusal:
            await refusal.response()(scope, receive, send)
            return
        paced = PacedSend(self._answers[is_peer], scope, receive, send)
        with self._places[is_peer].take():
            try:
                if signature is None:
                    await self._app(scope, _limited(receive, limit), paced)
                else:
                    await self._answer_peer(scope, headers, signature, _limited(receive, limit), paced)
            except SlowClient as error:
                # The server closes a connection whose answer is not complete.
                logger.info("%s: %s", path_of(scope), error)

    async def _open_websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._client_problem(scope, dict(scope["headers"])) is None:
            await self._app(scope, receive, send)
            return
        await receive()
        await send({"type": "websocket.close", "code": _NOT_ALLOWED})

    def _admit(self, scope: Scope, headers: Headers, is_peer: bool, limit: int) -> str | None:
        """Raises why a request is refused; of a peer's, the result is its signature."""
        if path_of(scope) in OPEN_PATHS:
            return None
        signature = None
        if is_peer:
            # The signature is checked before anything of the body is read.
            try:
                signature = self._checker.check(scope["method"], path_of(scope), _text(headers))
            except Refused as reason:
                told = f"This path is for the application's own instances, and the request is none of theirs: {reason}."
                raise Problem(401, "Not allowed", told) from None
        elif (problem := self._client_problem(scope, headers)) is not None:
            raise problem
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length[:20]) > limit:
            raise _too_large(limit)
        if self._places[is_peer].are_taken:
            raise Problem(
                503,
                "Too many requests at once",
                f"The instance works on {self._places[is_peer].most} requests already.",
                headers={"Retry-After": str(RETRY_SECONDS)},
            )
        return signature

    def _client_problem(self, scope: Scope, headers: Headers) -> Problem | None:
        """What keeps a client from asking.

        Without a token only this machine may ask, and not a page in a browser that has come under another name.
        """
        if self._token is not None:
            if _same(headers.get(b"authorization"), self._token):
                return None
            told = "A token is needed: Authorization: Bearer …"
            return Problem(401, "Not allowed", told, headers={"WWW-Authenticate": "Bearer"})
        client = scope.get("client")
        if client is None or not _is_address(client[0]):
            return None  # it does not come from a network
        if not is_loopback(client[0]):
            told = "This instance has no token, so it answers this machine only. Set HEADRACE_TOKEN to allow others."
            return Problem(401, "Not allowed", told)
        host = headers.get(b"host", b"").decode("latin-1")
        if host and not is_loopback(_without_port(host)):
            told = f"This instance answers for 127.0.0.1 and localhost, not for {host[:100]!r}: it has no token."
            return Problem(421, "Not its name", told)
        return None

    async def _answer_peer(self, scope: Scope, headers: Headers, signature: str, receive: Receive, send: Send) -> None:
        """Passes a request on if its body is the one that was signed, and signs what comes of it."""
        body = b""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            if not message.get("more_body", False):
                break
        if not _same(headers.get(BODY_HEADER.lower().encode()), sha256(body).hexdigest().encode()):
            refusal = Problem(401, "Not allowed", "The body is not the one that was signed.")
            await refusal.response()(scope, receive, send)
            return
        messages: list[Message] = []

        async def collect(message: Message) -> None:
            messages.append(message)

        await self._app(scope, _repeated(body, receive), collect)
        if not messages:
            return
        start, *rest = messages
        content = b"".join(message.get("body", b"") for message in rest)
        status = start["status"]
        signed = await off_loop(
            len(content) > LARGE_BYTES, lambda: self._checker.answer(signature, status, content).encode()
        )
        start["headers"] = [*start.get("headers", ()), (SIGNATURE_HEADER.lower().encode(), signed)]
        await send(start)
        await send({"type": "http.response.body", "body": content})


def _repeated(body: bytes, receive: Receive) -> Receive:
    """What a request has sent, once more."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def repeated() -> Message:
        return messages.pop() if messages else await receive()

    return repeated


def _text(headers: Headers) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in headers.items()}


def _is_address(client: str) -> bool:
    try:
        ipaddress.ip_address(client)
    except ValueError:
        return False
    return True


def _without_port(host: str) -> str:
    """The host of a Host header."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


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
