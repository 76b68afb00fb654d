"""What a record costs inside a task: CPU time on one core, without Kafka and without Spark.

A task gets rows as a worker has them, over an overlay on an LMDB, and its results are kept in a list as a worker does.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import msgspec

from benchmarks.contenders.topologies import ORDER, TEXT, Order, stateless, totals, windows
from benchmarks.orders import orders, orders_of_all
from headrace import (
    Consumed,
    Joined,
    JoinWindows,
    Materialized,
    Produced,
    Serdes,
    StreamJoined,
    StreamsBuilder,
    StreamsConfig,
    Topology,
)
from headrace.record import NO_HEADERS, Headers
from headrace.state.lmdb_store import LmdbStores
from headrace.state.overlay import OverlayStore
from headrace.task.compiled.setting import Compilation
from headrace.task.record_queue import Numbered
from headrace.task.task import Task

RECORDS = 100_000
ROUNDS = 5
STORES = 100_000
APPLICATION = "bench"
_MAP_SIZE = 1 << 32
_BATCH = 400

Rows = dict[str, list[Numbered]]
"""By topic."""


class Place(msgspec.Struct):
    """Where a store is."""

    locationId: str
    city: str


class Payment(msgspec.Struct):
    """A payment of an order."""

    orderId: str
    amount: float


PLACE = Serdes.json(Place)
PAYMENT = Serdes.json(Payment)


class Located(msgspec.Struct):
    """An order's revenue with the city it came from."""

    city: str
    finalAmount: float


LOCATED = Serdes.json(Located)


def table_join(source: str, output: str) -> Topology:
    """Each order with the city of its store."""
    builder = StreamsBuilder()
    places = builder.table("places", Consumed(key=TEXT, value=PLACE), Materialized("places", key=TEXT, value=PLACE))
    (
        builder.stream(source, Consumed(key=TEXT, value=ORDER))
        .join(places, _located, joined=Joined(key=TEXT, value=ORDER))
        .to(output, Produced(key=TEXT, value=LOCATED))
    )
    return builder.build()


def stream_join(source: str, output: str) -> Topology:
    """Each order with its payment, where that came within five seconds."""
    builder = StreamsBuilder()
    payments = builder.stream("payments", Consumed(key=TEXT, value=PAYMENT))
    (
        builder.stream(source, Consumed(key=TEXT, value=ORDER))
        .join(
            payments,
            _paid,
            JoinWindows.of(timedelta(seconds=5)),
            joined=StreamJoined(key=TEXT, value=ORDER, other=PAYMENT),
        )
        .to(output, Produced(key=TEXT, value=PAYMENT))
    )
    return builder.build()


def _located(order: Order, place: Place) -> Located:
    return Located(place.city, order.finalAmount)


def _paid(order: Order, payment: Payment) -> Payment:
    return Payment(order.orderId, payment.amount - order.finalAmount)


def _by_location(keys: int) -> Callable[[], Rows]:
    return lambda: {"in": [(n, o.timestamp, o.location_id, o.value, NO_HEADERS) for n, o in _orders(keys)]}


def _by_order() -> Rows:
    return {"in": [(n, o.timestamp, o.order_id, o.value, NO_HEADERS) for n, o in _orders(1_000)]}


def _all_different() -> Rows:
    found = enumerate(orders_of_all(RECORDS))
    return {"in": [(n, o.timestamp, o.location_id, o.value, NO_HEADERS) for n, o in found]}


def _repartitioned() -> Rows:
    rows = [(n, o.timestamp, o.location_id, o.value, NO_HEADERS) for n, o in _orders(1_000)]
    return {f"{APPLICATION}-by-location-repartition": rows}


def _orders_and_places() -> Rows:
    first = next(iter(orders(1, 1))).timestamp
    places: list[Numbered] = [
        (n, first - STORES + n, b"store-%07d" % n, b'{"locationId":"store-%07d","city":"Utrecht"}' % n, NO_HEADERS)
        for n in range(STORES)
    ]
    return {"places": places, **_by_location(STORES)()}


def _orders_and_payments() -> Rows:
    payments: list[Numbered] = [
        (n, o.timestamp + 1_000, o.order_id, b'{"orderId":"%s","amount":10.5}' % o.order_id, NO_HEADERS)
        for n, o in _orders(1_000)
    ]
    return {**_by_order(), "payments": payments}


def _orders(locations: int) -> enumerate:
    return enumerate(orders(RECORDS, locations))


@dataclass(frozen=True)
class Workload:
    """A sub-topology and its rows."""

    name: str
    topology: Callable[[str, str], Topology]
    rows: Callable[[], Rows]
    subtopology: int = 0
    before: tuple[str, ...] = ()
    """Topics that are read before the clock runs, in a batch of their own."""


WORKLOADS = (
    Workload("stateless", stateless, _by_order),
    Workload("keys-1k", totals, _by_location(1_000)),
    Workload("keys-1m", totals, _all_different),
    Workload("windows, repartition", windows, _by_order),
    Workload("windows, aggregate", windows, _repartitioned, subtopology=1),
    Workload("table-join", table_join, _orders_and_places, before=("places",)),
    Workload("stream-join", stream_join, _orders_and_payments),
)


@dataclass(frozen=True)
class Figure:
    """Microseconds of CPU a record, by form; the least of several rounds, as others use the machine too."""

    workload: str
    compiled: float
    uncompiled: float


def measure(workload: Workload) -> Figure:
    """The figures of one workload."""
    rows = workload.rows()
    topology = workload.topology("in", "out")
    rounds = [(_round(workload, topology, rows, True), _round(workload, topology, rows, False)) for _ in range(ROUNDS)]
    return Figure(workload.name, min(one for one, _ in rounds), min(other for _, other in rounds))


def lines(figures: list[Figure]) -> list[str]:
    """The figures as a table."""
    return [
        f"{'task, µs a record':<24}{'compiled':>10}{'uncompiled':>12}{'ratio':>8}",
        *(
            f"{f.workload:<24}{f.compiled:>10.2f}{f.uncompiled:>12.2f}{f.uncompiled / f.compiled:>8.2f}"
            for f in figures
        ),
    ]


def _round(workload: Workload, topology: Topology, rows: Rows, compiled: bool) -> float:
    with tempfile.TemporaryDirectory() as directory, _stores(directory) as stores:
        before = {topic: rows[topic] for topic in workload.before}
        if before:
            _batch(workload, topology, stores, before, compiled)
        timed = {topic: each for topic, each in rows.items() if topic not in before}
        spent = _batch(workload, topology, stores, timed, compiled)
    return spent / sum(map(len, timed.values())) * 1e6


def _batch(workload: Workload, topology: Topology, stores: LmdbStores, rows: Rows, compiled: bool) -> float:
    group = next(group for group in topology.subtopologies() if group.id == workload.subtopology)
    names = [name for name in topology.stores if name in _used(topology, group.nodes)]
    for name in names:
        stores.database(name)
    results: dict[str, list[Numbered]] = {}

    def send(
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers,
        partition: int | None,
    ) -> None:
        rows = results.get(topic)
        if rows is None:
            rows = results[topic] = []
        rows.append((0 if partition is None else partition, timestamp, key, value, headers))

    with stores.environment.begin() as transaction:
        overlays = {name: OverlayStore(stores.reader(transaction, name)) for name in names}
        task = Task(
            topology,
            StreamsConfig(application_id=APPLICATION),
            application_id=APPLICATION,
            ordered=lambda spec: overlays[spec.name],
            send=send,
            clock=lambda: 0,
            nodes=group.nodes,
            queue_per_topic=True,
            compilation=Compilation.ALWAYS if compiled else Compilation.NEVER,
        )
        started = time.process_time()
        _feed(task, rows)
        task.commit()
        spent = time.process_time() - started
        task.close()
        changes = {name: overlay.changes() for name, overlay in overlays.items()}
    with stores.environment.begin(write=True) as transaction:
        stores.apply(transaction, changes)
    return spent


def _feed(task: Task, rows: Rows) -> None:
    if len(rows) == 1:
        for topic, each in rows.items():
            queue = task.queue_of(topic)
            assert queue is not None
            task.process_all(queue, topic, 0, iter(each))
        return
    task.process_merged(0, dict(sorted(rows.items())))


def _used(topology: Topology, nodes: tuple[str, ...]) -> set[str]:
    return {store for name in nodes for store in getattr(topology.nodes[name], "stores", ())}


@contextmanager
def _stores(directory: str) -> Iterator[LmdbStores]:
    stores = LmdbStores(directory, _MAP_SIZE)
    try:
        yield stores
    finally:
        stores.close()
