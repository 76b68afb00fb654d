"""The REST application of an instance."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from headrace.errors import HeadraceError
from headrace.serving.rest import instances, stores, subscriptions
from headrace.serving.rest.guard import Guard
from headrace.serving.rest.key_reads import KeyReads
from headrace.serving.rest.problems import Problem, answer_problem
from headrace.serving.rest.schemas import SCHEMAS, problem_answers
from headrace.serving.service import Service

_STATUSES = frozenset(HTTPStatus)


def make_app(service: Service, routers: Iterable[APIRouter] = ()) -> FastAPI:
    """The endpoints of Headrace, and those of the application itself."""
    app = FastAPI(title=service.application_id, version="1", redoc_url=None, redirect_slashes=False)
    app.state.service = service
    app.state.subscribers = subscriptions.Subscribers(service)
    app.include_router(instances.public)
    app.include_router(instances.internal)
    # Before the endpoints of keys, whose paths take anything.
    app.include_router(subscriptions.router)
    app.include_router(stores.router)
    for router in routers:
        app.include_router(router)
    handle_errors(app)
    app.add_middleware(KeyReads, service=service)
    # The last one added is the first one asked.
    app.add_middleware(Guard, config=service.config, checker=service.checker)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return app


def mount_in(app: FastAPI, service: Service) -> None:
    """Adds Headrace's endpoints to a user's application, behind its own ones."""
    app.state.service = service
    app.mount("", make_app(service))


def handle_errors(app: FastAPI) -> None:
    """Has every error answered with a problem document."""
    for kind in (Problem, HeadraceError, Exception):
        app.add_exception_handler(kind, answer_problem)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    wrong = "; ".join(f"{'.'.join(str(part) for part in each['loc'])}: {each['msg']}" for each in error.errors())
    return Problem(400, "Bad Request", wrong).response()


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    title = HTTPStatus(error.status_code).phrase if error.status_code in _STATUSES else "Error"
    return Problem(error.status_code, title, str(error.detail), headers=dict(error.headers or {})).response()


def _openapi(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        schema = get_openapi(title=app.title, version=app.version, routes=app.routes)
        known = schema.setdefault("components", {}).setdefault("schemas", {})
        known.update(SCHEMAS)
        invalid = problem_answers(400)[400]
        for path in schema["paths"].values():
            for operation in path.values():
                # FastAPI's own form of these errors: here they are problem documents.
                if operation["responses"].pop("422", None) is not None:
                    operation["responses"].setdefault("400", invalid)
        for unused in ("HTTPValidationError", "ValidationError"):
            known.pop(unused, None)
        app.openapi_schema = schema
    return app.openapi_schema
