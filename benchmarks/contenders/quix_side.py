"""Quix Streams: the workloads in as many processes as there are cores, exactly once.

It runs in an environment of its own, which has neither Headrace nor its dependencies.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from quixstreams import Application, State
from quixstreams.dataframe import StreamingDataFrame
from quixstreams.dataframe.windows import Count, Sum
from quixstreams.models import Topic

COMMIT_SECONDS = 1.0
"""The default is 5: the last commit, with which the time ends, would be seconds late."""
WINDOW = timedelta(seconds=15)
GRACE = timedelta(days=1)
PAID_WITHIN = timedelta(seconds=5)
PAYMENT_GRACE = timedelta(minutes=1)

Frames = list[StreamingDataFrame]


def stateless(frames: Frames, output: Topic) -> None:
    """The revenue of each order of the general kind."""
    (
        frames[0]
        .filter(lambda order: order["orderType"] == "GENERAL")
        .apply(
            lambda order: {
                "locationId": order["locationId"],
                "finalAmount": order["finalAmount"],
                "items": len(order["orderLineItems"]),
            }
        )
        .to_topic(output)
    )


def totals(frames: Frames, output: Topic) -> None:
    """The running count and revenue of each key."""
    frames[0].apply(_add, stateful=True).to_topic(output)


def windows(frames: Frames, output: Topic) -> None:
    """The count and revenue of each location in windows of 15 seconds, under Kafka Streams' windowed keys."""
    (
        frames[0]
        .group_by("locationId", name="by-location", key_serializer="str", key_deserializer="str")
        .tumbling_window(WINDOW, grace_ms=GRACE)
        .agg(count=Count(), revenue=Sum("finalAmount"))
        .current()
        .apply(lambda value, key, timestamp, headers: {**value, "key": key}, metadata=True)
        .to_topic(output, key=_windowed_key)
    )


def table_join(frames: Frames, output: Topic) -> None:
    """Each order with the city and region of its store."""
    orders, stores = frames
    orders.join_asof(stores, how="inner", on_merge=_placed).to_topic(output)


def stream_join(frames: Frames, output: Topic) -> None:
    """Each order with its payment, if that is within five seconds."""
    orders, payments = frames
    orders.join_interval(
        payments,
        how="inner",
        on_merge=_paid,
        grace_ms=PAID_WITHIN + PAYMENT_GRACE,
        backward_ms=PAID_WITHIN,
        forward_ms=PAID_WITHIN,
    ).to_topic(output)


def _add(order: dict[str, Any], state: State) -> dict[str, Any]:
    total = state.get("total", {"count": 0, "revenue": 0.0})
    total = {"count": total["count"] + 1, "revenue": total["revenue"] + order["finalAmount"]}
    state.set("total", total)
    return total


def _windowed_key(value: dict[str, Any]) -> bytes:
    return value["key"].encode() + int(value["start"]).to_bytes(8, "big")


def _placed(order: dict[str, Any], store: dict[str, Any]) -> dict[str, Any]:
    return {
        "orderId": order["orderId"],
        "finalAmount": order["finalAmount"],
        "city": store["city"],
        "region": store["region"],
    }


def _paid(order: dict[str, Any], payment: dict[str, Any]) -> dict[str, Any]:
    return {
        "locationId": order["locationId"],
        "finalAmount": order["finalAmount"],
        "method": payment["method"],
        "amount": payment["amount"],
    }


WORKLOADS: dict[str, Callable[[Frames, Topic], None]] = {
    "stateless": stateless,
    "totals": totals,
    "windows": windows,
    "table-join": table_join,
    "stream-join": stream_join,
}


def main() -> None:
    options = _options()
    if options.processes == 1:
        _run(options)
        return
    # Each member of the group has a state of its own.
    children = [
        subprocess.Popen([*sys.orig_argv, "--processes", "1", "--state-dir", f"{options.state_dir}-{number}"])
        for number in range(options.processes)
    ]
    sys.exit(max(child.wait() for child in children))


def _run(options: argparse.Namespace) -> None:
    app = Application(
        broker_address=options.servers,
        consumer_group=options.application_id,
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once",
        commit_interval=COMMIT_SECONDS,
        state_dir=options.state_dir,
        loglevel="WARNING",
    )
    frames = [app.dataframe(app.topic(name, value_deserializer="json")) for name in options.sources]
    output = app.topic(options.output, key_serializer="bytes", value_serializer="json")
    WORKLOADS[options.topology](frames, output)
    app.run()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sources", required=True, nargs="+")
    for name in ("--topology", "--output", "--servers", "--application-id", "--state-dir"):
        parser.add_argument(name, required=True)
    parser.add_argument("--processes", type=int, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()
