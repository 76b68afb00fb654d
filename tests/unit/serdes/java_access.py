"""Calls of Java constructors and methods that are not public."""

from __future__ import annotations

from typing import Any

STATE = "org.apache.kafka.streams.state.internals"
FOREIGN_KEY = "org.apache.kafka.streams.kstream.internals.foreignkeyjoin"


def construct(jvm: Any, class_name: str, *arguments: Any) -> Any:
    """A new object from the first constructor with as many parameters."""
    for constructor in jvm.java.lang.Class.forName(class_name).getDeclaredConstructors():
        if constructor.getParameterCount() == len(arguments):
            constructor.setAccessible(True)
            return constructor.newInstance(objects(jvm, *arguments))
    raise LookupError(f"{class_name} has no constructor with {len(arguments)} parameters")


def call(jvm: Any, class_name: str, target: Any, method_name: str, *arguments: Any) -> Any:
    """The result of the method; a target of None calls a static one."""
    for method in jvm.java.lang.Class.forName(class_name).getDeclaredMethods():
        if method.getName() == method_name and method.getParameterCount() == len(arguments) and not method.isBridge():
            method.setAccessible(True)
            return method.invoke(target, objects(jvm, *arguments))
    raise LookupError(f"{class_name} has no method {method_name} with {len(arguments)} parameters")


def objects(jvm: Any, *values: Any) -> Any:
    """An Object[]."""
    return array(jvm, "java.lang.Object", *values)


def array(jvm: Any, class_name: str, *values: Any) -> Any:
    """An array of that class."""
    result = jvm.java.lang.reflect.Array.newInstance(jvm.java.lang.Class.forName(class_name), len(values))
    for index, value in enumerate(values):
        result[index] = value
    return result


def longs(jvm: Any, data: bytes | None) -> Any:
    """A long[] of the big-endian longs in the data."""
    if data is None:
        return None
    buffer = jvm.java.nio.ByteBuffer.wrap(data).asLongBuffer()
    result = jvm.java.lang.reflect.Array.newInstance(jvm.java.lang.Long.TYPE, len(data) // 8)
    buffer.get(result)
    return result
