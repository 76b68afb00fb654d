"""The first batches, which run while Spark starts."""

from __future__ import annotations

import functools
import itertools
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark import SparkContext, cloudpickle

from headrace import Consumed, Produced, Serdes, Streams, StreamsBuilder, TimeWindows, Topology
from headrace.errors import EnvironmentFailed, HeadraceError, ProcessingFailed
from headrace.kafka.embedded import EmbeddedKafka
from headrace.kafka.topics import Topics, TopicSpec
from headrace.spark.first_worker import FirstWorker
from headrace.spark.job import warm_up
from headrace.spark.runtime import SparkRuntime
from tests.spark.lab import TEXT, Lab, await_that, once, poisoned
from tests.spark.running import read_all

PATIENCE = 60.0


def fail() -> None:
    raise ValueError("poisoned")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class SlowSpark:
    """The tests' Spark as if it took as long to start as a test wants."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._started = threading.Event()
        self._failure: Exception | None = None

    def hold(self) -> None:
        self._started.clear()

    def let_start(self) -> None:
        self._started.set()

    def let_fail(self, failure: Exception) -> None:
        self._failure = failure
        self._started.set()

    def start(self, runtime: SparkRuntime) -> SparkContext:
        assert self._started.wait(PATIENCE)
        if self._failure is not None:
            raise self._failure
        runtime._context, runtime._owns_context = self._context, False
        return self._context


@pytest.fixture
def slow(spark: SparkContext, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowSpark]:
    slow = SlowSpark(spark)
    monkeypatch.setattr("headrace.spark.runtime.has_context", lambda: False)
    monkeypatch.setattr(SparkRuntime, "_start", lambda runtime: slow.start(runtime))
    yield slow
    slow.let_start()


@pytest.fixture
def lab(embedded_kafka: EmbeddedKafka, tmp_path: Path) -> Lab:
    return Lab(embedded_kafka.bootstrap_servers, tmp_path)


@contextmanager
def starting(application: Streams) -> Iterator[Future[None]]:
    """Starts an application, which waits for Spark; closes it in the end."""
    with ThreadPoolExecutor(1) as pool:
        try:
            yield pool.submit(application.start)
        finally:
            application.close()


def test_results_do_not_wait_for_spark(lab: Lab, slow: SlowSpark) -> None:
    lab.create_topics()
    lab.send("a", "b")
    application = Streams(lab.topology(with_process, store="counts"), lab.config())
    with starting(application) as start:
        await_that(lambda: len(lab.written()) == 2, "there are no results before Spark has started", PATIENCE)
        assert application.state == "REBALANCING" and not start.done()
        slow.let_start()
        start.result(PATIENCE)
        await_that(lambda: _sends_to_spark(lab, application), "Spark does not take over", PATIENCE)
        count = len(lab.written())
        assert application.store("counts").get("k") == count
    values, processes = zip(*(each.split() for each in lab.written()), strict=True)
    assert values == ("A", "B", *"C" * (count - 2))
    assert str(os.getpid()) not in processes


@pytest.mark.parametrize("misfortune", [fail, die])
def test_what_goes_wrong_in_the_first_worker_is_repeated_on_spark(
    lab: Lab, slow: SlowSpark, tmp_path: Path, misfortune: Callable[[], None]
) -> None:
    lab.create_topics()
    lab.send("a", "poison")
    shout = functools.partial(once, tmp_path / "tried", misfortune=misfortune)
    application = Streams(lab.topology(shout, store="counts"), lab.config())
    with starting(application) as start:
        await_that((tmp_path / "tried").exists, "the first worker has nothing to do", PATIENCE)
        assert lab.written() == []
        slow.let_start()
        start.result(PATIENCE)
        application.process_all_available()
        assert lab.written() == ["A", "POISON"]
        assert application.store("counts").get("k") == 2


def test_an_error_of_a_record_is_that_of_the_batch_on_spark(lab: Lab, slow: SlowSpark) -> None:
    lab.create_topics()
    lab.send("poison")
    application = Streams(lab.topology(poisoned), lab.config())
    with starting(application) as start:
        slow.let_start()
        start.result(PATIENCE)
        with pytest.raises(ProcessingFailed, match="poisoned"):
            application.wait(PATIENCE)


def test_a_start_without_spark_fails(lab: Lab, slow: SlowSpark) -> None:
    lab.create_topics()
    lab.send("a")
    application = Streams(lab.topology(), lab.config())
    with starting(application) as start:
        await_that(lambda: lab.written() == ["A"], "there are no results before Spark has started", PATIENCE)
        slow.let_fail(EnvironmentFailed("no Java"))
        with pytest.raises(EnvironmentFailed, match="no Java"):
            start.result(PATIENCE)
    assert application.state == "ERROR"


def test_each_task_gives_results_when_its_own_store_is_rebuilt(lab: Lab, slow: SlowSpark, tmp_path: Path) -> None:
    """Of four tasks whose working copies are lost, one is held up: the others have results before it."""
    names = [f"{lab.application_id}.{name}" for name in ("in", "out")]
    Topics(lab.settings).create([TopicSpec(name, 4) for name in names])
    slow.let_start()
    producer = Producer(lab.settings.producer(enable_idempotence=True))
    for partition in range(4):
        producer.produce(names[0], "1", f"key-{partition}", partition=partition)
    producer.flush()
    with Streams(_counting(*names), lab.config()) as application:
        application.process_all_available()
    shutil.rmtree(tmp_path / "copies")
    slow.hold()
    for partition in range(4):
        producer.produce(names[0], "2", f"key-{partition}", partition=partition)
    producer.flush()
    seen = []
    application = Streams(_counting(*names), lab.config())
    application.on_progress(seen.append)
    with starting(application):
        await_that(lambda: len(read_all(lab.settings, names[1])) == 8, "there are no results", PATIENCE)
        slow.let_start()
    assert [progress.records for progress in seen] == [1, 1, 1, 1]
    counts = [(key, Serdes.long().deserialize(value)) for key, value, *_ in read_all(lab.settings, names[1])]
    assert sorted(counts) == [(f"key-{each}".encode(), count) for each in range(4) for count in (1, 2)]


def test_tasks_that_send_each_other_rows_run_together(lab: Lab, slow: SlowSpark) -> None:
    """With the rows of one task at a time, a join finds no prices, and windows close before all have counted."""
    names = {name: f"{lab.application_id}.{name}" for name in ("orders", "prices", "priced", "counted")}
    Topics(lab.settings).create([TopicSpec(name, 3) for name in names.values()])
    now = int(time.time() * 1000) // 1000 * 1000
    producer = Producer(lab.settings.producer(enable_idempotence=True, partitioner="murmur2_random"))
    for product in "abc":
        producer.produce(names["prices"], "1", product, timestamp=now - 60_000)
    for number in range(30):
        producer.produce(names["orders"], "abc"[number % 3], f"{number}", number % 3, timestamp=now + 500 * number)
    producer.flush()
    config = lab.config(default_key_serde=TEXT, default_value_serde=TEXT, cache_max_bytes=0)
    application = Streams(_joining(**names), config)
    with starting(application) as start:
        await_that(lambda: len(read_all(lab.settings, names["priced"])) == 30, "orders lack their prices", PATIENCE)
        assert len(read_all(lab.settings, names["counted"])) == 30, "windows were closed too early"
        assert not start.done()
        slow.let_start()


def _joining(orders: str, prices: str, priced: str, counted: str) -> Topology:
    """Orders with the prices of their products, and how many there are of a product within a second."""
    builder = StreamsBuilder()
    of_product = builder.stream(orders, Consumed(key=TEXT, value=TEXT)).select_key(lambda key, value: value)
    of_product.join(builder.table(prices, Consumed(key=TEXT, value=TEXT)), lambda order, price: f"{order} {price}").to(
        priced, Produced(key=TEXT, value=TEXT)
    )
    windows = TimeWindows(size=timedelta(seconds=1))
    counts = of_product.group_by_key().windowed_by(windows).count()
    counts.to_stream(lambda windowed, count: windowed.key).to(counted, Produced(key=TEXT, value=Serdes.long()))
    return builder.build()


def test_spark_practises_until_batches_wait_for_it(spark: SparkContext) -> None:
    asked = itertools.count(1)
    warm_up(spark, lambda: next(asked) == 3)
    assert next(asked) == 4


def test_an_application_that_is_closed_while_spark_starts_has_ended(lab: Lab, slow: SlowSpark) -> None:
    lab.create_topics()
    lab.send("a")
    application = Streams(lab.topology(), lab.config())
    with starting(application) as start:
        await_that(lambda: lab.written() == ["A"], "there are no results before Spark has started", PATIENCE)
        with ThreadPoolExecutor(1) as pool:
            closing = pool.submit(application.close)
            await_that(lambda: application.state == "PENDING_SHUTDOWN", "it does not close", PATIENCE)
            slow.let_start()
            closing.result(PATIENCE)
        with pytest.raises(HeadraceError, match="told to stop"):
            start.result(PATIENCE)
        assert application.state in ("NOT_RUNNING", "ERROR")
        assert application.wait(PATIENCE)


def test_a_batch_that_takes_long_moves_to_spark_with_all_the_others(
    lab: Lab, slow: SlowSpark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.create_topics()
    lab.send("slow")
    shout = functools.partial(held_up_first, tmp_path)
    application = Streams(lab.topology(shout, store="counts"), lab.config())
    with starting(application) as start:
        await_that((tmp_path / "there").exists, "the first worker has nothing to do", PATIENCE)
        slow.let_start()
        start.result(PATIENCE)
        application.process_all_available()
        assert lab.written() == ["SLOW"]


def test_the_first_worker_ends_with_its_driver(lab: Lab, tmp_path: Path) -> None:
    """It must not go on with working copies that another driver has."""
    worker = FirstWorker({})
    worker.begin(cloudpickle.dumps(None))
    pid = worker._process.pid
    del worker._connection
    await_that(lambda: worker._process.poll() is not None, f"process {pid} is still there", PATIENCE)


def test_hashes_are_those_of_sparks_workers(lab: Lab, slow: SlowSpark) -> None:
    lab.create_topics()
    lab.send("a")
    application = Streams(lab.topology(hashed), lab.config())
    with starting(application) as start:
        await_that(lambda: len(lab.written()) == 1, "there are no results before Spark has started", PATIENCE)
        slow.let_start()
        start.result(PATIENCE)
        await_that(lambda: _sends_to_spark(lab, application), "Spark does not take over", PATIENCE)
    assert len({each.split()[0] for each in lab.written()}) == 1


def held_up_first(directory: Path, value: str) -> str:
    """Waits for ever, but only where it is the first to come."""
    try:
        (directory / "there").touch(exist_ok=False)
    except FileExistsError:
        return value.upper()
    threading.Event().wait()
    return value


def hashed(value: str) -> str:
    return f"{hash('a')} {os.getpid()}"


def _counting(source: str, sink: str) -> Topology:
    builder = StreamsBuilder()
    records = builder.stream(source, Consumed(key=TEXT, value=TEXT))
    records.group_by_key().count("counts").to_stream().to(sink, Produced(key=TEXT, value=Serdes.long()))
    return builder.build()


def _sends_to_spark(lab: Lab, application: Streams) -> bool:
    """Sends one more record; whether another process than that of the first has taken it."""
    lab.send("c")
    application.process_all_available()
    written = [each.split()[1] for each in lab.written()]
    return written[-1] != written[0]


def with_process(value: str) -> str:
    return f"{value.upper()} {os.getpid()}"
