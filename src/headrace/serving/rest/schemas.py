"""What answers look like, for the OpenAPI document."""

from __future__ import annotations

from typing import Any

from headrace.serving.rest.problems import MEDIA_TYPE

Schema = dict[str, Any]
Responses = dict[int | str, dict[str, Any]]

_TEXT: Schema = {"type": "string"}
_NUMBER: Schema = {"type": "integer"}
_FLAG: Schema = {"type": "boolean"}
_ANYTHING: Schema = {}


def _object(required: dict[str, Schema], optional: dict[str, Schema] | None = None) -> Schema:
    return {"type": "object", "required": list(required), "properties": {**required, **(optional or {})}}


def _list(of: Schema) -> Schema:
    return {"type": "array", "items": of}


def _by_name(of: Schema) -> Schema:
    return {"type": "object", "additionalProperties": of}


def _or_null(kind: str) -> Schema:
    return {"type": [kind, "null"]}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


_MISSING = _object({"partition": _NUMBER, "reason": _TEXT, "detail": _TEXT})
_FRESHNESS: dict[str, Schema] = {"position": _TEXT, "staleness_ms": _or_null("integer")}
_COMPLETENESS: dict[str, Schema] = {"complete": _FLAG, "missing": _list(_MISSING)}
_WINDOW = _object({"start": _NUMBER, "end": _NUMBER})
_RESTORING = _object(
    {
        "store": _TEXT,
        "partition": _NUMBER,
        "records_left": _or_null("integer"),
        "eta_seconds": _or_null("number"),
    }
)
_ENTRY_MORE: dict[str, Schema] = {"timestamp": _NUMBER, "window": _WINDOW, "unreadable": _TEXT}

SCHEMAS: dict[str, Schema] = {
    "Problem": {
        **_object({"type": _TEXT, "title": _TEXT, "status": _NUMBER, "detail": _TEXT}),
        "title": "Problem",
        "description": "What went wrong (RFC 9457).",
    },
    "Entry": _object({"key": _ANYTHING, "value": _ANYTHING}, _ENTRY_MORE),
    "KeyAnswer": _object({"key": _ANYTHING, "value": _ANYTHING, **_FRESHNESS}, _ENTRY_MORE),
    "Page": _object(
        {"entries": _list(_ref("Entry")), "next": _or_null("string"), **_COMPLETENESS, **_FRESHNESS},
    ),
    "ManyAnswer": _object({"entries": _list(_ref("Entry")), "absent": _list(_ANYTHING), **_FRESHNESS}),
    "Count": _object({"store": _TEXT, "count": _NUMBER, **_COMPLETENESS, **_FRESHNESS}),
    "Store": _object(
        {
            "name": _TEXT,
            "kind": _TEXT,
            "key": _TEXT,
            "value": _TEXT,
            "key_form": {"enum": ["text", "json"]},
            "partitions": _NUMBER,
            "global": _FLAG,
            "topic": _TEXT,
        },
        {"retention_ms": _NUMBER, "window_size_ms": _NUMBER},
    ),
    "Stores": _object({"stores": _list(_ref("Store"))}),
    "Instance": _object(
        {
            "address": _TEXT,
            "leader": _FLAG,
            "partitions": _by_name(_list(_NUMBER)),
            "state": {"enum": ["STARTING", "RESTORING", "RUNNING", "FAILED", "UNREACHABLE"]},
            "lag": _or_null("integer"),
            "standby": _by_name(_list(_NUMBER)),
            "restoring": _list(_RESTORING),
            "trouble": _or_null("string"),
        }
    ),
    "Instances": _object(
        {"application": _TEXT, "leader": _or_null("string"), "instances": _list(_ref("Instance"))},
    ),
    "Status": _object({"status": _TEXT}),
    "Settings": {"type": "object"},
}

_PROBLEM = {"content": {MEDIA_TYPE: {"schema": _ref("Problem")}}}
_DESCRIPTIONS = {
    400: "The request is wrong; the document says what would be right.",
    401: "A token is needed.",
    404: "No such store, or no such key.",
    410: "What is asked for is no longer there.",
    413: "The request is too large.",
    503: "A partition has nobody to answer for it at the moment, or there are too many requests at once.",
}


def answers(schema: str, *problems: int) -> Responses:
    """The answers of an endpoint: what it gives, and the problems it may have."""
    given: Responses = {200: {"description": "The answer.", "content": {"application/json": {"schema": _ref(schema)}}}}
    return {**given, **problem_answers(*problems)}


def problem_answers(*problems: int) -> Responses:
    """The problems an endpoint may have; those that every one may have are among them."""
    return {status: {"description": _DESCRIPTIONS[status], **_PROBLEM} for status in sorted({401, 503, *problems})}
