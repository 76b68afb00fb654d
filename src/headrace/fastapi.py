"""Headrace in a FastAPI application: stores in handlers, and streams that live as long as the application.

A module that `headrace run` starts may have a router beside its topology; it is mounted on every instance:

```python
from typing import Annotated

from fastapi import APIRouter
from headrace.fastapi import AsyncStore, store

router = APIRouter()

@router.get("/orders/{location}")
async def orders(location: str, counts: Annotated[AsyncStore, store("general_orders_count")]) -> int:
    return await counts.get(location) or 0
```
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

from fastapi import Depends, FastAPI, Request

from headrace.errors import HeadraceError
from headrace.serving.reading import Demands
from headrace.serving.rest.problems import answer_problem
from headrace.serving.service import Service
from headrace.serving.views import AsyncStore

if TYPE_CHECKING:
    from headrace.streams import Streams

__all__ = ["AsyncStore", "Demands", "Service", "handle_errors", "lifespan", "service", "store"]


def store(name: str, demands: Demands | None = None) -> Any:
    """The store of that name, as a dependency of a handler."""

    async def dependency(request: Request) -> AsyncStore:
        return AsyncStore((await _service_of(request)).reader, name, demands or Demands())

    return Depends(dependency)


def service() -> Any:
    """The instance's service, as a dependency of a handler: who owns a key, and how the instance does."""
    return Depends(_service_of)


def lifespan(streams: Streams) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    """Starts the streams with a FastAPI application and closes them with it: `FastAPI(lifespan=lifespan(streams))`.

    The application gets Headrace's endpoints as well, through which other instances ask it. Its address is the
    configuration's `application_server`.
    """

    @asynccontextmanager
    async def living(app: FastAPI) -> AsyncIterator[None]:
        await asyncio.to_thread(streams.start_within, app)
        try:
            yield
        finally:
            await asyncio.to_thread(streams.close)

    return living


def handle_errors(app: FastAPI) -> None:
    """Has what stores cannot answer told as problem documents, as Headrace's own endpoints do, not as an error 500."""
    app.add_exception_handler(HeadraceError, answer_problem)


async def _service_of(request: Request) -> Service:
    found: Service = request.app.state.service
    return found
