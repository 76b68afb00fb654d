"""What a task offers to the operator of one node."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.errors import StreamsError, UnknownStoreError
from headrace.operators.operator import Forward, ValueGetter
from headrace.operators.views import make_getter
from headrace.processor.context import CurrentContext, ProcessorContext
from headrace.processor.punctuation import PunctuationType
from headrace.record import RecordContext
from headrace.state.facade import read_only, read_write
from headrace.task.punctuation import Schedule
from headrace.topology.nodes import ProcessorNode
from headrace.topology.views import View

if TYPE_CHECKING:
    from headrace.task.task import Task

T = TypeVar("T")


class NodeContext:
    """The view of the task from one node."""

    __slots__ = ("_definition", "_forwards", "_task", "application_id", "current", "node", "task_id", "task_partition")

    def __init__(self, task: Task, definition: ProcessorNode, forwards: dict[str, Forward]) -> None:
        self._task = task
        self._definition = definition
        self._forwards = forwards
        self.node = definition.name
        self.task_id = task.task_id
        self.task_partition = task.partition
        self.application_id = task.application_id
        self.current: RecordContext | None = None
        """The record or the punctuation that the node is at work on."""

    # --- for operators -----------------------------------------------------------------------------------------

    def store(self, name: str) -> Any:
        """The typed store of that name."""
        return self._task.store(name)

    def view(self, view: View) -> ValueGetter:
        """A getter for a table's values."""
        return make_getter(view, self)

    def shared(self, name: str, factory: Callable[[], T]) -> T:
        """The object that the operators of this task share under that name."""
        shared = self._task.shared
        if name not in shared:
            shared[name] = factory()
        found: T = shared[name]
        return found

    def forward_to(self, child: str) -> Forward:
        """Passes records to one child only."""
        forward = self._forwards.get(child)
        if forward is None:
            known = ", ".join(self._forwards) or "none"
            raise StreamsError(
                f"Unknown downstream node: {child} either does not exist or is not connected to node {self.node}. "
                f"Its children: {known}."
            )
        return forward

    def stream_time(self) -> int:
        """The largest timestamp the task has seen, -1 before the first record."""
        return self._task.stream_time

    def system_time(self) -> int:
        """The wall clock in milliseconds."""
        return self._task.clock()

    def drop(self, context: RecordContext, reason: str) -> None:
        """Counts a record that is dropped, and logs it."""
        self._task.errors.drop(self.node, context, reason)

    def metadata_get(self, name: str) -> int | None:
        """A number that the task keeps from commit to commit."""
        return self._task.metadata.get(name)

    def metadata_put(self, name: str, value: int) -> None:
        """Keeps a number from commit to commit."""
        self._task.metadata[name] = value

    # --- for users' processors ---------------------------------------------------------------------------------

    def processor_context(self, current: CurrentContext) -> ProcessorContext:
        """The context of a user's transformer, which cannot forward; `current` tells the record at work."""
        context = ProcessorContext(self, lambda: self.current or current(), _no_forward)
        context.refusal = (
            "forward() is not supported from this context, as the key of a record must not change. "
            "Use KStream.process() if you need to change the key."
        )
        return context

    def user_store(self, name: str, current: CurrentContext) -> Any:
        """The store as users see it, if it is connected to the node."""
        task = self._task
        spec = task.specs.get(name)
        if spec is None or (not spec.is_global and name not in self._definition.stores):
            raise UnknownStoreError(self._no_access(name, spec is not None))
        if spec.is_global and self.node not in task.global_nodes:
            return read_only(task.store(name), spec)

        def at() -> RecordContext:
            return current() or RecordContext(task.clock())

        return read_write(task.store(name), spec, at)

    def schedule(
        self, interval_ms: int, kind: PunctuationType, callback: Callable[[int], None], start_ms: int | None = None
    ) -> Schedule:
        """Calls the function at intervals."""
        if self.node in self._task.global_nodes:
            raise StreamsError(f"Node {self.node}: schedule() is not supported for the processor of a global store")
        return self._task.schedule(self.node, interval_ms, kind, callback, start_ms)

    def request_commit(self) -> None:
        """Asks for a commit soon."""
        self._task.commit_requested = True

    def _no_access(self, name: str, exists: bool) -> str:
        line = f" ({self._definition.location})" if self._definition.location else ""
        if not exists:
            known = ", ".join(self._task.specs) or "none"
            return f"Node {self.node}{line}: there is no store {name}. The topology's stores: {known}."
        return (
            f"Node {self.node}{line} has no access to store {name}, as the store is not connected to it. "
            f"Name the store where the processor is added: process(..., stores=({name!r},)), process_values and "
            f"transform_values likewise, or topology.add_state_store(store, {self.node!r})."
        )


def _no_forward(key: Any, value: Any, context: RecordContext) -> None:
    raise StreamsError("forward() is not supported from this context")
