"""The shortest way to the value of a key, which is asked for more often than anything else."""

from __future__ import annotations

import re

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace.serving.rest.guard import path_of
from headrace.serving.rest.problems import answer_problem
from headrace.serving.rest.stores import read_key
from headrace.serving.service import Service

_PATH = re.compile(r"/v1/stores/([^/]+)/keys/(.*)", re.DOTALL)


class KeyReads:
    """Answers a plain `GET /v1/stores/{store}/keys/{key}` itself: finding the endpoint and its parameters takes
    several times longer than reading the key. With parameters, and everything else, the application is asked."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = _PATH.fullmatch(path_of(scope)) if _is_plain_get(scope) else None
        if found is None:
            await self._app(scope, receive, send)
            return
        try:
            response = await read_key(self._service, found[1], found[2])
        except Exception as error:
            response = await answer_problem(Request(scope), error)
        await response(scope, receive, send)


def _is_plain_get(scope: Scope) -> bool:
    return scope["type"] == "http" and scope["method"] == "GET" and not scope["query_string"]
