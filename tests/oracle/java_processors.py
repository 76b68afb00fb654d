"""Headrace's processors as processors of Kafka Streams."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from py4j.java_gateway import JavaObject

from headrace.processor import PunctuationType
from headrace.record import Record, RecordMetadata
from tests.oracle.boxes import Boxes
from tests.oracle.functions import Functions, JavaIdentity
from tests.oracle.java_options import Options
from tests.oracle.java_stores import wrap_store

Supplier = Callable[[], Any]


class Context:
    """Kafka Streams' context under the names of Headrace's."""

    def __init__(self, java: JavaObject, boxes: Boxes, fixed_key: bool = False) -> None:
        self._java = java
        self._boxes = boxes
        self._fixed_key = fixed_key

    def forward(self, record: Record[Any, Any], child: str | None = None) -> None:
        java = self._boxes.box_record(record)
        if self._fixed_key:
            java = self._boxes.streams.processor.api.InternalFixedKeyRecordFactory.create(java)
        if child is None:
            self._java.forward(java)
        else:
            self._java.forward(java, child)

    def state_store(self, name: str) -> Any:
        return wrap_store(self._java.getStateStore(name), self._boxes)

    def schedule(
        self,
        interval: timedelta,
        kind: PunctuationType,
        callback: Callable[[int], Any],
        *,
        start_time: int | None = None,
    ) -> Schedule:
        options = Options(self._boxes)
        start = () if start_time is None else (options.instant(start_time),)
        java_kind = getattr(self._boxes.streams.processor.PunctuationType, kind.name)
        punctuator = Functions(self._boxes).punctuator(callback)
        return Schedule(self._java.schedule(*start, options.duration(interval), java_kind, punctuator))

    def commit(self) -> None:
        self._java.commit()

    def current_stream_time_ms(self) -> int:
        return int(self._java.currentStreamTimeMs())

    def current_system_time_ms(self) -> int:
        return int(self._java.currentSystemTimeMs())

    @property
    def task_id(self) -> str:
        return str(self._java.taskId().toString())

    @property
    def application_id(self) -> str:
        return str(self._java.applicationId())

    @property
    def record_metadata(self) -> RecordMetadata | None:
        metadata = self._java.recordMetadata()
        found = None if metadata.isEmpty() else metadata.get()
        # In init() and in punctuations Kafka Streams promises none, but its driver has metadata that names no topic.
        if found is None or found.topic() is None:
            return None
        return RecordMetadata(found.topic(), found.partition(), found.offset())


class Schedule:
    """A scheduled punctuation."""

    def __init__(self, java: JavaObject) -> None:
        self._java = java

    def cancel(self) -> None:
        self._java.cancel()


class _JavaProcessor(JavaIdentity):
    def __init__(self, processor: Any, boxes: Boxes) -> None:
        self._processor = processor
        self._boxes = boxes

    fixed_key = False

    def init(self, java: JavaObject) -> None:
        self._processor.ctx = Context(java, self._boxes, self.fixed_key)
        self._processor.init(self._processor.ctx)

    def process(self, record: JavaObject) -> None:
        self._processor.process(self._boxes.unbox_record(record))

    def close(self) -> None:
        self._processor.close()

    class Java:
        implements = ("org.apache.kafka.streams.processor.api.Processor",)


class _JavaFixedKeyProcessor(_JavaProcessor):
    fixed_key = True

    class Java:
        implements = ("org.apache.kafka.streams.processor.api.FixedKeyProcessor",)


class _JavaTransformer(JavaIdentity):
    def __init__(self, transformer: Any, boxes: Boxes) -> None:
        self._transformer = transformer
        self._boxes = boxes

    def init(self, java: JavaObject) -> None:
        self._transformer.init(Context(java, self._boxes))

    def transform(self, key: Any, value: Any) -> Any:
        return self._boxes.box(self._transformer.transform(self._boxes.unbox(key), self._boxes.unbox(value)))

    def close(self) -> None:
        self._transformer.close()

    class Java:
        implements = ("org.apache.kafka.streams.kstream.ValueTransformerWithKey",)


class _JavaSupplier(JavaIdentity):
    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    def get(self) -> Any:
        return self._make()

    def stores(self) -> None:
        return None


class _JavaProcessorSupplier(_JavaSupplier):
    class Java:
        implements = ("org.apache.kafka.streams.processor.api.ProcessorSupplier",)


class _JavaFixedKeyProcessorSupplier(_JavaSupplier):
    class Java:
        implements = ("org.apache.kafka.streams.processor.api.FixedKeyProcessorSupplier",)


class _JavaTransformerSupplier(_JavaSupplier):
    class Java:
        implements = ("org.apache.kafka.streams.kstream.ValueTransformerWithKeySupplier",)


def processor_supplier(supplier: Supplier, boxes: Boxes) -> Any:
    """A supplier for `process` and `Topology.addProcessor`."""
    return _JavaProcessorSupplier(lambda: _JavaProcessor(supplier(), boxes))


def fixed_key_processor_supplier(supplier: Supplier, boxes: Boxes) -> Any:
    """A supplier for `processValues`."""
    return _JavaFixedKeyProcessorSupplier(lambda: _JavaFixedKeyProcessor(supplier(), boxes))


def transformer_supplier(supplier: Supplier, boxes: Boxes) -> Any:
    """A supplier for `transformValues`."""
    return _JavaTransformerSupplier(lambda: _JavaTransformer(supplier(), boxes))
