"""The base classes of users' processors, and what is asked of their suppliers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from headrace.errors import TopologyError
from headrace.processor.context import FixedKeyProcessorContext, ProcessorContext
from headrace.record import Record

K = TypeVar("K")
V = TypeVar("V")


class Processor(Generic[K, V]):
    """Handles record by record, with stores and schedules. `ctx` is set before `init`."""

    ctx: ProcessorContext

    def init(self, ctx: ProcessorContext) -> None:
        """Called once before the first record."""

    def process(self, record: Record[K, V]) -> None:
        """Handles one record; `self.ctx.forward(...)` passes results on."""
        raise NotImplementedError(f"{type(self).__name__} has no process(record)")

    def close(self) -> None:
        """Called once at the end."""


class FixedKeyProcessor(Generic[K, V]):
    """The same for a processor that keeps the key of each record, so that no repartitioning is needed."""

    ctx: FixedKeyProcessorContext

    def init(self, ctx: FixedKeyProcessorContext) -> None:
        """Called once before the first record."""

    def process(self, record: Record[K, V]) -> None:
        """Handles one record; `self.ctx.forward(...)` passes results on."""
        raise NotImplementedError(f"{type(self).__name__} has no process(record)")

    def close(self) -> None:
        """Called once at the end."""


Supplier = Callable[[], Any]
"""A class, or a function without arguments, that gives a new object each time."""


def supply(supplier: object, what: str) -> Any:
    """A new object of the supplier."""
    if not callable(supplier):
        raise TopologyError(
            f"{what} must be a class or a function without arguments, not an object of {type(supplier).__name__}"
        )
    made = supplier()
    if made is None:
        raise TopologyError(f"{what} must return an object, but {_name_of(supplier)} returned None")
    return made


def _name_of(supplier: object) -> str:
    return str(getattr(supplier, "__qualname__", None) or type(supplier).__name__)
