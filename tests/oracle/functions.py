"""Python functions as the Java interfaces that Kafka Streams asks for.

A proxy answers for every method of its interface, those with a default body too: all that are called must be here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from py4j.java_gateway import JavaObject

from headrace.record import RecordContext
from headrace.serdes import Serde
from headrace.timestamps import ConsumedRecord
from tests.oracle.boxes import Boxes

Function = Callable[..., Any]
_KSTREAM = "org.apache.kafka.streams.kstream."


def arity(function: Function, otherwise: int) -> int:
    """How many arguments the function requires."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return otherwise
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in positional and p.default is inspect.Parameter.empty for p in parameters)


class JavaIdentity:
    """What every Java object can do; Kafka Streams asks it of some functions when it describes the topology."""

    def hashCode(self) -> int:
        return id(self) & 0x7FFFFFFF

    def equals(self, other: object) -> bool:
        return self is other

    def toString(self) -> str:
        return type(self).__name__


def java_function(interface: str, method: str, call: Function, text: str | None = None) -> Any:
    """An object that is the Java interface with that one method."""

    class Java:
        implements = (interface,)

    members = {
        method: lambda _self, *args: call(*args),
        "toString": lambda _self: text or interface,
        "Java": Java,
    }
    return type(interface.rpartition(".")[2], (JavaIdentity,), members)()


class Functions:
    """Makes Java functions of Python ones."""

    def __init__(self, boxes: Boxes) -> None:
        self._boxes = boxes

    def _boxed(self, interface: str, method: str, function: Function, result: Function | None = None) -> Any:
        unbox, box = self._boxes.unbox, result or self._boxes.box
        return java_function(_KSTREAM + interface, method, lambda *args: box(function(*map(unbox, args))))

    def predicate(self, function: Function) -> Any:
        return self._boxed("Predicate", "test", function, result=bool)

    def key_mapper(self, function: Function) -> Any:
        return self._boxed("KeyValueMapper", "apply", function)

    def pair_mapper(self, function: Function) -> Any:
        return self._boxed("KeyValueMapper", "apply", function, result=self._boxes.box_pair)

    def pairs_mapper(self, function: Function) -> Any:
        def pairs(result: Any) -> JavaObject:
            return self._boxes.box_list(self._boxes.box_pair(pair) for pair in result)

        return self._boxed("KeyValueMapper", "apply", function, result=pairs)

    def value_mapper(self, function: Function, result: Function | None = None) -> Any:
        with_key = arity(function, 1) == 2
        return self._boxed("ValueMapperWithKey" if with_key else "ValueMapper", "apply", function, result)

    def values_mapper(self, function: Function) -> Any:
        def values(result: Any) -> JavaObject:
            return self._boxes.box_list(map(self._boxes.box, result))

        return self.value_mapper(function, values)

    def action(self, function: Function) -> Any:
        return self._boxed("ForeachAction", "apply", function, result=lambda _: None)

    def joiner(self, function: Function) -> Any:
        with_key = arity(function, 2) == 3
        return self._boxed("ValueJoinerWithKey" if with_key else "ValueJoiner", "apply", function)

    def initializer(self, function: Function) -> Any:
        return self._boxed("Initializer", "apply", function)

    def aggregator(self, function: Function) -> Any:
        return self._boxed("Aggregator", "apply", function)

    def merger(self, function: Function) -> Any:
        return self._boxed("Merger", "apply", function)

    def reducer(self, function: Function) -> Any:
        return self._boxed("Reducer", "apply", function)

    def foreign_key(self, function: Function) -> Any:
        unbox, box = self._boxes.unbox, self._boxes.box
        interface = "BiFunction" if arity(function, 1) == 2 else "Function"
        return java_function(f"java.util.function.{interface}", "apply", lambda *args: box(function(*map(unbox, args))))

    def topic_extractor(self, function: Function) -> Any:
        boxes = self._boxes

        def extract(key: Any, value: Any, context: JavaObject) -> str:
            ctx = RecordContext(
                context.timestamp(),
                boxes.unbox_headers(context.headers()),
                context.topic(),
                context.partition(),
                context.offset(),
            )
            return function(boxes.unbox(key), boxes.unbox(value), ctx)

        text = getattr(function, "__qualname__", type(function).__qualname__)
        return java_function("org.apache.kafka.streams.processor.TopicNameExtractor", "extract", extract, text)

    def timestamp_extractor(self, function: Any) -> Any:
        """One of Kafka Streams' own extractors where it bears such a name, else the user's function."""
        own = java_extractor_name(function)
        if own is not None:
            return getattr(self._boxes.streams.processor, own)()
        boxes = self._boxes

        def extract(record: JavaObject, partition_time: int) -> int:
            consumed = ConsumedRecord(
                boxes.unbox(record.key()),
                boxes.unbox(record.value()),
                record.timestamp(),
                boxes.unbox_headers(record.headers()),
                record.topic(),
                record.partition(),
                record.offset(),
            )
            return int(function(consumed, partition_time))

        return java_function("org.apache.kafka.streams.processor.TimestampExtractor", "extract", extract)

    def partitioner(self, function: Function) -> Any:
        boxes = self._boxes

        def partitions(topic: str, key: Any, value: Any, count: int) -> JavaObject:
            optional = boxes.jvm.java.util.Optional
            chosen = function(topic, boxes.unbox(key), boxes.unbox(value), count)
            return optional.empty() if chosen is None else optional.of(boxes.jvm.java.util.Set.of(chosen))

        return java_function("org.apache.kafka.streams.processor.StreamPartitioner", "partitions", partitions)

    def punctuator(self, function: Function) -> Any:
        return java_function(
            "org.apache.kafka.streams.processor.Punctuator", "punctuate", lambda time: _nothing(function(time))
        )

    def serde(self, serde: Serde[Any]) -> JavaObject:
        """Kafka's own serde where it has the type, else ours behind Java's interface."""
        own = KAFKA_SERDES.get(serde.name)
        serdes = self._boxes.common.serialization.Serdes
        if own is not None:
            return getattr(serdes, own)()
        return serdes.serdeFrom(_Serializer(serde, self._boxes), _Deserializer(serde, self._boxes))


KAFKA_SERDES = {"string": "String", "long": "Long", "double": "Double", "bytes": "ByteArray", "boolean": "Boolean"}
"""Serdes whose Python values cross into the JVM as the very type that Kafka's serde takes."""

KAFKA_EXTRACTORS = (
    "FailOnInvalidTimestamp",
    "LogAndSkipOnInvalidTimestamp",
    "UsePartitionTimeOnInvalidTimestamp",
    "WallclockTimestampExtractor",
)


def java_extractor_name(extractor: Any) -> str | None:
    """The name of Kafka Streams' own extractor that this one stands for."""
    for name in (getattr(extractor, "__name__", None), type(extractor).__name__):
        for known in KAFKA_EXTRACTORS:
            if name is not None and name.replace("_", "").lower() == known.lower():
                return known
    return None


def _nothing(_: Any) -> None:
    return None


class _Serializer(JavaIdentity):
    def __init__(self, serde: Serde[Any], boxes: Boxes) -> None:
        self._serde = serde
        self._boxes = boxes

    def configure(self, *_: Any) -> None:
        pass

    def serialize(self, _topic: str, *headers_and_data: Any) -> bytes | None:
        return self._serde.serialize(self._boxes.unbox(headers_and_data[-1]))

    def close(self) -> None:
        pass

    class Java:
        implements = ("org.apache.kafka.common.serialization.Serializer",)


class _Deserializer(JavaIdentity):
    def __init__(self, serde: Serde[Any], boxes: Boxes) -> None:
        self._serde = serde
        self._boxes = boxes

    def configure(self, *_: Any) -> None:
        pass

    def deserialize(self, _topic: str, *headers_and_data: Any) -> Any:
        data = headers_and_data[-1]
        if isinstance(data, JavaObject):  # a ByteBuffer
            data = self._boxes.common.utils.Utils.toNullableArray(data)
        return self._boxes.box(self._serde.deserialize(data))

    def close(self) -> None:
        pass

    class Java:
        implements = ("org.apache.kafka.common.serialization.Deserializer",)
