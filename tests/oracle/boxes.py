"""How values cross between Python and the JVM.

Text, numbers, booleans and bytes cross as themselves. Any other Python value crosses as a handle, a Java String that
only the boxes of this run can open. What Kafka Streams makes itself (`Windowed`, `ValueAndTimestamp`, …) is opened
into the types a Headrace user knows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from py4j.java_gateway import JavaGateway, JavaObject

from headrace.record import Headers, Record, ValueAndTimestamp
from headrace.windowed import Window, Windowed

_HANDLE = "\u0001py:"


class JavaLong(int):
    """An int that py4j sends as a Long, however small it is."""

    def __le__(self, other: object) -> bool:
        return False


class Boxes:
    """The values that have crossed during one run."""

    def __init__(self, gateway: JavaGateway) -> None:
        self.gateway = gateway
        self.jvm = gateway.jvm
        self.streams = gateway.jvm.org.apache.kafka.streams
        self.common = gateway.jvm.org.apache.kafka.common
        self._values: list[Any] = []
        self._handle_by_value: dict[Any, str] = {}
        self._java_windowed: dict[Windowed[Any], JavaObject] = {}

    def box(self, value: Any) -> Any:
        """What stands for the value in the JVM."""
        if value is None or isinstance(value, (bool, str, float, bytes, JavaObject)):
            return value
        if isinstance(value, int) and -(2**63) <= value < 2**63:
            return JavaLong(value)
        if isinstance(value, Windowed):
            return self._box_windowed(value)
        return self._handle(value)

    def _handle(self, value: Any) -> str:
        # Equal values get equal handles, since Kafka Streams compares keys. Mutable ones keep their identity instead.
        try:
            identity: Any = (type(value), value, repr(value))
            hash(identity)
        except TypeError:
            identity = (type(value), id(value))
        handle = self._handle_by_value.get(identity)
        if handle is None:
            handle = f"{_HANDLE}{len(self._values)}"
            self._values.append(value)
            self._handle_by_value[identity] = handle
        return handle

    def _box_windowed(self, windowed: Windowed[Any]) -> JavaObject:
        known = self._java_windowed.get(windowed)
        if known is not None:
            return known
        internals = self.streams.kstream.internals
        start, end = windowed.window.start, windowed.window.end
        # Only a session can begin and end at the same time.
        kind = internals.TimeWindow if end > start else internals.SessionWindow
        return self.streams.kstream.Windowed(self.box(windowed.key), kind(start, end))

    def session(self, windowed: Windowed[Any]) -> JavaObject:
        """The key of a session store."""
        window = self.streams.kstream.internals.SessionWindow(windowed.window.start, windowed.window.end)
        return self.streams.kstream.Windowed(self.box(windowed.key), window)

    def unbox(self, value: Any) -> Any:
        """The Python value behind what the JVM has."""
        if isinstance(value, str) and value.startswith(_HANDLE):
            return self._values[int(value[len(_HANDLE) :])]
        if not isinstance(value, JavaObject):
            return value
        kind = value.getClass().getSimpleName()
        if kind == "Windowed":
            window = value.window()
            windowed = Windowed(self.unbox(value.key()), Window(window.start(), window.end()))
            self._java_windowed[windowed] = value
            return windowed
        if kind == "ValueAndTimestamp":
            return ValueAndTimestamp(self.unbox(value.value()), value.timestamp())
        raise TypeError(f"no Python form for {kind}: {value}")

    def box_pair(self, pair: Any) -> Any:
        """A pair of key and value as a KeyValue."""
        if pair is None:
            return None
        key, value = pair
        return self.streams.KeyValue(self.box(key), self.box(value))

    def box_list(self, items: Iterable[Any]) -> JavaObject:
        """A Java list of things that are in their Java form already."""
        result = self.jvm.java.util.ArrayList()
        for item in items:
            result.add(item)
        return result

    def strings(self, items: Iterable[str]) -> Any:
        """A Java array of strings, for parameters that take any number of them."""
        items = list(items)
        array = self.gateway.new_array(self.jvm.java.lang.String, len(items))
        for index, item in enumerate(items):
            array[index] = item
        return array

    def box_headers(self, headers: Headers) -> JavaObject:
        """Record headers."""
        internals = self.common.header.internals
        result = internals.RecordHeaders()
        for name, value in headers:
            result.add(internals.RecordHeader(name, value))
        return result

    def unbox_headers(self, headers: JavaObject) -> Headers:
        """Record headers, in order."""
        return tuple((header.key(), header.value()) for header in headers.toArray())

    def box_record(self, record: Record[Any, Any]) -> JavaObject:
        """A record of the Processor API."""
        return self.streams.processor.api.Record(
            self.box(record.key), self.box(record.value), JavaLong(record.timestamp), self.box_headers(record.headers)
        )

    def unbox_record(self, record: JavaObject) -> Record[Any, Any]:
        """A record as a processor gets it."""
        return Record(
            self.unbox(record.key()),
            self.unbox(record.value()),
            record.timestamp(),
            self.unbox_headers(record.headers()),
        )
