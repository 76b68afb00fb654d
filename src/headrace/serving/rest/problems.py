"""Errors as problem documents (RFC 9457)."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from headrace.errors import StoreError, UnknownStoreError
from headrace.serving.changes import PositionError
from headrace.serving.queries import Refusal
from headrace.serving.reading import CursorError, DemandError, UnavailableError
from headrace.serving.texts import KeyTextError

logger = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = 1


class Problem(Exception):
    """Something a client is told, with the status of HTTP."""

    def __init__(
        self, status: int, title: str, detail: str, *, headers: dict[str, str] | None = None, **facts: Any
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.headers = headers
        self.document = {"type": "about:blank", "title": title, "status": status, "detail": detail, **facts}

    def response(self) -> Response:
        """The problem as an answer."""
        return Response(msgspec.json.encode(self.document), self.status, self.headers, MEDIA_TYPE)


def problem_of(error: Exception) -> Problem:
    """What a client is told about an error; of those it cannot do anything about, nothing."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, UnknownStoreError):
        return Problem(404, "Unknown store", str(error))
    if isinstance(error, UnavailableError):
        return Problem(
            503,
            "Not available now",
            str(error),
            headers={"Retry-After": str(RETRY_SECONDS)},
            store=error.store,
            partitions=describe_missing(error.refused),
        )
    if isinstance(error, (KeyTextError, CursorError, DemandError, PositionError)):
        return Problem(400, "Bad Request", str(error))
    if isinstance(error, StoreError):
        return Problem(400, "Not for this kind of store", str(error))
    return Problem(500, "Internal error", "The instance could not answer; its log says why.")


def describe_missing(refused: dict[int, Refusal]) -> list[dict[str, Any]]:
    """The partitions that were not answered for, and why."""
    return [
        {"partition": partition, "reason": refusal.reason, "detail": refusal.detail}
        for partition, refusal in sorted(refused.items())
    ]


async def answer_problem(request: Request, error: Exception) -> Response:
    """The handler of errors."""
    problem = problem_of(error)
    if problem.status == 500:
        logger.error("A request to %s failed", request.url.path, exc_info=error)
    return problem.response()
