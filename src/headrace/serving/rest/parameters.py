"""What requests may ask for beside the content: freshness, pages and times."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Annotated

from fastapi import Query

from headrace.duration import MAX_MILLIS
from headrace.serving.reading import Demands
from headrace.serving.rest.problems import Problem

MAX_LIMIT = 10_000
_MAX_TIMEOUT_MS = 60_000
_POSITION = re.compile(r"\d{1,9}:\d{1,18}(,\d{1,9}:\d{1,18})*")

AllowStale = Annotated[
    bool, Query(description="Take what a copy has that is not up to date, rather than an error, while partitions move.")
]
MinPosition = Annotated[
    str | None,
    Query(
        description="Changelog offsets that the answer must have reached, as partition:offset,…; the request waits.",
        examples=["0:120,2:7"],
        pattern=f"^{_POSITION.pattern}$",
    ),
]
MaxStaleness = Annotated[
    int | None, Query(description="How old the answer may be at most; the request waits.", ge=0, le=MAX_MILLIS)
]
Timeout = Annotated[int, Query(description="Milliseconds for the whole request.", ge=1, le=_MAX_TIMEOUT_MS)]
Limit = Annotated[int, Query(description="The most entries in the answer.", ge=1, le=MAX_LIMIT)]
Cursor = Annotated[str | None, Query(description="`next` of the page before.", max_length=4096)]
Time = Annotated[
    str | None,
    Query(description="Milliseconds since 1970, or a date and time of ISO 8601.", examples=["2022-12-04T05:26:31Z"]),
]


async def demands(
    allow_stale: AllowStale = False,
    min_position: MinPosition = None,
    max_staleness_ms: MaxStaleness = None,
    timeout_ms: Timeout = 5000,
) -> Demands:
    """How fresh the answer has to be, and how long it may take."""
    return Demands(allow_stale, read_position(min_position), max_staleness_ms, timeout_ms / 1000)


def read_position(text: str | None) -> dict[int, int]:
    """Offsets by partition."""
    if not text:
        return {}
    if _POSITION.fullmatch(text) is None:
        raise Problem(
            400, "Bad Request", f"{text!r} is not a position: partition:offset,… is needed, such as 0:120,2:7"
        )
    return {int(partition): int(offset) for partition, offset in (each.split(":") for each in text.split(","))}


def write_position(positions: Mapping[int, int]) -> str:
    """Offsets by partition as text."""
    return ",".join(f"{partition}:{offset}" for partition, offset in sorted(positions.items()))


def read_time(text: str | None, default: int, name: str) -> int:
    """Milliseconds, from a number or from ISO 8601."""
    if text is None:
        return default
    if re.fullmatch(r"\d{1,19}", text):
        return min(int(text), MAX_MILLIS)
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        moment = None
    if moment is None:
        raise Problem(
            400, "Bad Request", f"{name}: {text!r} is neither milliseconds since 1970 nor a date and time of ISO 8601"
        )
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    return max(0, int(moment.timestamp() * 1000))
