"""The OpenAPI document is true: requests made from it find no server error, and answers look as it says."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import httpx
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.serving.conftest import Fixed

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
STORES = ["clicks", "minutes", "visits", "prices", "places", "by_long", "by_json", "by_custom", "none"]
ENDLESS = "/v1/stores/{store}/changes"


def test_requests_made_from_the_document(app: Fixed) -> None:
    schema = schemathesis.openapi.from_url(f"{app.running[0].url}/openapi.json")
    tried = set()
    for result in schema.get_all_operations():
        operation: Any = result.ok()  # type: ignore[union-attr]
        if operation.path == ENDLESS:
            continue
        for mode in schemathesis.GenerationMode:
            _try(app, operation, operation.as_strategy(generation_mode=mode))
        tried.add((operation.method, operation.path))
    assert ("get", "/v1/stores/{store}/keys/{key}") in tried and ("post", "/v1/stores/{store}/keys") in tried
    assert len(tried) == 14


def _try(app: Fixed, operation: Any, cases: Any) -> None:
    turns = iter(range(10**9))

    @settings(
        max_examples=10,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases)
    def attempt(case: Any) -> None:
        turn = next(turns)
        if "store" in (case.path_parameters or {}) and turn % 4:
            # Made-up names are all unknown: most of the time one that is there.
            case.path_parameters["store"] = STORES[turn % len(STORES)]
        if "timeout_ms" in (case.query or {}):
            case.query["timeout_ms"] = min(case.query["timeout_ms"], 100) if _is_number(case.query["timeout_ms"]) else 1
        elif case.query:
            case.query["timeout_ms"] = 100
        case.call_and_validate(base_url=app.running[turn % 3].url, checks=CHECKS)

    with suppress(Unsatisfiable):
        # Where nothing can be wrong, there is no wrong request.
        attempt()


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def test_other_methods_are_refused_as_problems(app: Fixed, http: httpx.Client) -> None:
    for path in ("/v1/stores", "/v1/stores/clicks/keys/a", "/healthz", "/internal/v1/query"):
        running = app.any
        response = http.delete(running.url + path, headers=running.signed("DELETE", path))
        assert response.status_code == 405 and response.headers["allow"]
        assert response.headers["content-type"] == "application/problem+json"


def test_the_documentation_is_there(app: Fixed, http: httpx.Client) -> None:
    assert "swagger" in http.get(f"{app.any.url}/docs").text.lower()
    document = http.get(f"{app.any.url}/openapi.json").json()
    assert not any("internal" in path for path in document["paths"])
    for path, operations in document["paths"].items():
        for operation in operations.values():
            assert "422" not in operation["responses"], path
            assert {"401", "503"} <= operation["responses"].keys(), path
