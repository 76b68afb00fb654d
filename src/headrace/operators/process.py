"""process and process_values: a user's processor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.errors import TopologyError
from headrace.operators.operator import Operator, OperatorContext
from headrace.processor.context import FixedKeyProcessorContext, ProcessorContext
from headrace.processor.processor import supply
from headrace.record import Record, RecordContext
from headrace.topology.operations import Process


class ProcessOperator(Operator):
    """Runs a user's processor; the node's context knows the record it is at work on."""

    __slots__ = ("_fixed_key", "_host", "_key", "_process", "_supplier", "_user")

    _process: Callable[[Record[Any, Any]], None]

    def __init__(self, operation: Process) -> None:
        self._supplier = operation.supplier
        self._fixed_key = operation.fixed_key
        self._host: Any = None
        self._user: Any = None
        self._key: tuple[Any] | None = None

    def init(self, ctx: OperatorContext) -> None:
        host: Any = ctx
        self._host = host
        user = self._new_processor(ctx.node)
        if self._fixed_key:
            context: ProcessorContext = FixedKeyProcessorContext(host, self._current, self.forward, lambda: self._key)
        else:
            context = ProcessorContext(host, self._current, self.forward)
        user.ctx = context
        self._user = user
        self._process = user.process
        init = getattr(user, "init", None)
        if init is not None:
            context.refusal = "forward() cannot be called in init(), before the first record"
            init(context)
            context.refusal = None

    def process(self, key: Any, value: Any, context: RecordContext) -> None:
        host = self._host
        before, key_before = host.current, self._key
        host.current = context
        self._key = (key,)
        try:
            self._process(Record(key, value, context.timestamp, context.headers))
        finally:
            host.current, self._key = before, key_before

    def close(self) -> None:
        close = getattr(self._user, "close", None)
        if close is not None:
            close()

    def _new_processor(self, node: str) -> Any:
        what = f"The processor supplier of node {node}"
        user = supply(self._supplier, what)
        if isinstance(getattr(user, "ctx", None), ProcessorContext):
            raise TopologyError(
                f"{what} returned an object that another processor uses already; "
                "it must return a new object each time it is called"
            )
        if not callable(getattr(user, "process", None)):
            raise TopologyError(f"{what} must return a Processor, but {type(user).__name__} has no process(record)")
        return user

    def _current(self) -> RecordContext | None:
        current: RecordContext | None = self._host.current
        return current
