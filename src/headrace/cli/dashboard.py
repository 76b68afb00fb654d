"""A page that shows the stores of an application as they change, served by an instance."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from fastapi import APIRouter
from starlette.responses import HTMLResponse

_PATH = "/dashboard"
# The page is whole by itself: nothing of it comes from elsewhere.
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'"


def dashboard(title: str, stores: Sequence[str]) -> APIRouter:
    """The page at /dashboard. It begins with these stores; a reader may choose others."""
    page = files("headrace.cli").joinpath("dashboard.html").read_text(encoding="utf-8")
    router = APIRouter(include_in_schema=False)

    @router.get(_PATH)
    async def show() -> HTMLResponse:
        return HTMLResponse(page, headers={"Content-Security-Policy": _POLICY, "Cache-Control": "no-store"})

    @router.get(f"{_PATH}/settings")
    async def settings() -> dict[str, Any]:
        return {"title": title, "stores": list(stores)}

    return router
