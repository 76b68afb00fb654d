"""`Topology.add_*` over Kafka Streams."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from py4j.java_gateway import JavaGateway, JavaObject

from headrace.serdes import Serde
from headrace.topology.stores import StoreSpec
from tests.oracle.builder import Bridge
from tests.oracle.java_processors import processor_supplier


class Topology:
    """A topology of the Processor API."""

    def __init__(self, gateway: JavaGateway) -> None:
        self.bridge = Bridge(gateway)
        self._java = self.bridge.boxes.streams.Topology()

    def add_source(
        self,
        name: str,
        *topics: str | re.Pattern[str],
        key: Serde[Any] | None = None,
        value: Serde[Any] | None = None,
        timestamp_extractor: Any = None,
        offset_reset: str | None = None,
    ) -> Topology:
        bridge = self.bridge
        places: Any = bridge.boxes.strings(topic for topic in topics if isinstance(topic, str))
        if isinstance(topics[0], re.Pattern):
            places = bridge.boxes.jvm.java.util.regex.Pattern.compile(topics[0].pattern)
        reset: Any = None
        if offset_reset is not None:
            reset = getattr(bridge.boxes.streams.AutoOffsetReset, offset_reset)()
        extractor = None
        if timestamp_extractor is not None:
            extractor = bridge.functions.timestamp_extractor(timestamp_extractor)
        arguments: list[Any]
        if key is None and value is None:
            arguments = [argument for argument in (reset, extractor) if argument is not None] + [name]
        elif reset is None and extractor is None:
            arguments = [name, self._deserializer(key), self._deserializer(value)]
        else:
            reset = reset or bridge.boxes.streams.AutoOffsetReset.earliest()
            arguments = [reset, name, extractor, self._deserializer(key), self._deserializer(value)]
        self._java.addSource(*arguments, places)
        return self

    def add_processor(self, name: str, supplier: Callable[[], Any], *parents: str) -> Topology:
        boxes = self.bridge.boxes
        self._java.addProcessor(name, processor_supplier(supplier, boxes), boxes.strings(parents))
        return self

    def add_state_store(self, store: StoreSpec, *processors: str) -> Topology:
        self._java.addStateStore(self.bridge.options.store_builder(store), self.bridge.boxes.strings(processors))
        return self

    def add_sink(
        self,
        name: str,
        topic: str | Callable[..., str],
        *parents: str,
        key: Serde[Any] | None = None,
        value: Serde[Any] | None = None,
        partitioner: Any = None,
    ) -> Topology:
        bridge = self.bridge
        arguments: list[Any] = [name, topic if isinstance(topic, str) else bridge.functions.topic_extractor(topic)]
        if key is not None or value is not None:
            arguments += [self._serializer(key), self._serializer(value)]
        if partitioner is not None:
            arguments.append(bridge.functions.partitioner(partitioner))
        self._java.addSink(*arguments, bridge.boxes.strings(parents))
        return self

    def build(self) -> JavaObject:
        return self._java

    def _serializer(self, serde: Serde[Any] | None) -> JavaObject | None:
        return None if serde is None else self.bridge.functions.serde(serde).serializer()

    def _deserializer(self, serde: Serde[Any] | None) -> JavaObject | None:
        return None if serde is None else self.bridge.functions.serde(serde).deserializer()
