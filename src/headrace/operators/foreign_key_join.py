"""Foreign-key joins of two tables.

The left table's task subscribes to the foreign key of each row, the right table's task keeps the subscriptions
and answers with the foreign row, now and whenever that changes. An answer carries the hash of the left row
it was asked for: where the row has changed since, the answer is out of date and dropped.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from headrace.errors import ConfigError
from headrace.operators.operator import Operator, OperatorContext, ValueGetter
from headrace.record import Change, RecordContext
from headrace.serdes import Serde
from headrace.serdes.forms.foreign_key import Instruction, Subscription, combined_key_prefix, pack_combined_key
from headrace.serdes.hashing import murmur3_128
from headrace.topology.operations import (
    ForeignTableJoin,
    ResponseJoin,
    SubscriptionJoin,
    SubscriptionReceive,
    SubscriptionSend,
)
from headrace.topology.serde_refs import SerdeRef

_DELETE = Instruction.DELETE_KEY_NO_PROPAGATE
_DELETE_AND_ANSWER = Instruction.DELETE_KEY_AND_PROPAGATE
_ANSWER = Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE
_ANSWER_IF_FOUND = Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE

_OUT_OF_ORDER = "out-of-order record of a versioned table in a table–table join"


class CombinedKey(NamedTuple):
    """A subscriber's primary key and the foreign key it asks for."""

    foreign_key: Any
    primary_key: Any


class Answer(NamedTuple):
    """The foreign row for a left row whose value had this hash; the partition is where the left row lives."""

    hash: bytes | None
    value: Any
    primary_partition: int | None


class SubscriptionSendOperator(Operator):
    """Left table: subscribes each row to its foreign key, and unsubscribes it from the one it had."""

    __slots__ = (
        "_ctx",
        "_foreign_key",
        "_left",
        "_partition",
        "_serialize_foreign_key",
        "_serialize_value",
        "_versioned",
    )

    def __init__(self, operation: SubscriptionSend) -> None:
        self._foreign_key = operation.foreign_key
        self._serialize_foreign_key = _given(operation.foreign_key_serde, "foreign key").serialize
        self._serialize_value = _given(operation.value_serde, "value").serialize
        self._left = operation.left
        self._versioned = operation.versioned

    def init(self, ctx: OperatorContext) -> None:
        self._ctx = ctx
        self._partition = ctx.task_partition

    def process(self, key: Any, value: Any, context: RecordContext) -> None:
        change: Change = value
        if self._versioned and not change.is_latest:
            self._ctx.drop(context, _OUT_OF_ORDER)
        elif self._left:
            self._process_left(key, change, context)
        else:
            self._process_inner(key, change, context)

    def _process_left(self, key: Any, change: Change, context: RecordContext) -> None:
        new, old, _ = change
        if new is None and old is None:
            return
        old_foreign_key = None if old is None else self._foreign_key(key, old)
        new_foreign_key = None if new is None else self._foreign_key(key, new)
        hash = self._hash(new)
        if old_foreign_key is not None and self._differ(new_foreign_key, old_foreign_key):
            self._send(old_foreign_key, _DELETE, key, hash, context)
        self._send(new_foreign_key, _ANSWER, key, hash, context)

    def _process_inner(self, key: Any, change: Change, context: RecordContext) -> None:
        new, old, _ = change
        old_foreign_key = None if old is None else self._foreign_key(key, old)
        if new is None:
            if old_foreign_key is not None:
                self._send(old_foreign_key, _DELETE_AND_ANSWER, key, None, context)
            return
        new_foreign_key = self._foreign_key(key, new)
        if new_foreign_key is None:
            self._ctx.drop(context, "null foreign key")
            if old_foreign_key is not None:
                self._send(old_foreign_key, _DELETE_AND_ANSWER, key, self._hash(new), context)
            return
        hash = self._hash(new)
        if old_foreign_key is not None and self._differ(new_foreign_key, old_foreign_key):
            self._send(old_foreign_key, _DELETE, key, hash, context)
            self._send(new_foreign_key, _ANSWER, key, hash, context)
        else:
            self._send(new_foreign_key, _ANSWER_IF_FOUND, key, hash, context)

    def _differ(self, new_foreign_key: Any, old_foreign_key: Any) -> bool:
        serialize = self._serialize_foreign_key
        return bool(serialize(new_foreign_key) != serialize(old_foreign_key))

    def _hash(self, value: Any) -> bytes | None:
        return None if value is None else murmur3_128(self._serialize_value(value))

    def _send(
        self, foreign_key: Any, instruction: Instruction, key: Any, hash: bytes | None, context: RecordContext
    ) -> None:
        self.forward(foreign_key, Subscription(hash, instruction, key, self._partition), context)


class SubscriptionReceiveOperator(Operator):
    """Right table: keeps or removes the subscription and passes it on under the combined key."""

    __slots__ = ("_ctx", "_serialize_foreign_key", "_serialize_primary_key", "_store", "_subscriptions")

    def __init__(self, operation: SubscriptionReceive) -> None:
        self._store = operation.store
        self._serialize_foreign_key = _given(operation.foreign_key_serde, "foreign key").serialize
        self._serialize_primary_key = _given(operation.primary_key_serde, "primary key").serialize

    def init(self, ctx: OperatorContext) -> None:
        self._ctx = ctx
        self._subscriptions = ctx.store(self._store)

    def process(self, key: Any, value: Any, context: RecordContext) -> None:
        subscription: Subscription = value
        instruction = subscription.instruction
        primary_key: Any = subscription.primary_key
        if key is not None:
            combined = pack_combined_key(self._serialize_foreign_key(key), self._serialize_primary_key(primary_key))
            if instruction is _DELETE or instruction is _DELETE_AND_ANSWER:
                self._subscriptions.delete(combined, context)
            else:
                self._subscriptions.put(combined, subscription, context.timestamp, context)
        elif instruction is not _ANSWER:
            self._ctx.drop(context, "null foreign key")
            return
        self.forward(CombinedKey(key, primary_key), subscription, context)


class SubscriptionJoinOperator(Operator):
    """Right table: answers a subscription with the foreign row there is now."""

    __slots__ = ("_foreign_rows", "_view")

    _foreign_rows: ValueGetter

    def __init__(self, operation: SubscriptionJoin) -> None:
        self._view = operation.foreign_table

    def init(self, ctx: OperatorContext) -> None:
        self._foreign_rows = ctx.view(self._view)

    def process(self, key: Any, value: Any, context: RecordContext) -> None:
        subscription: Subscription = value
        instruction = subscription.instruction
        if instruction is _DELETE:
            return
        foreign_key, primary_key = key
        found = None if foreign_key is None else self._foreign_rows.get(foreign_key)
        if found is None and instruction is _ANSWER_IF_FOUND:
            return
        row = None if found is None or instruction is _DELETE_AND_ANSWER else found.value
        time = context.timestamp if found is None else max(context.timestamp, found.timestamp)
        self.forward(primary_key, Answer(subscription.hash, row, subscription.primary_partition), context.at(time))


class ForeignTableJoinOperator(Operator):
    """Right table: answers all subscribers of a changed foreign row, in the order of their keys' bytes."""

    __slots__ = ("_ctx", "_serialize_foreign_key", "_store", "_subscriptions", "_versioned")

    def __init__(self, operation: ForeignTableJoin) -> None:
        self._store = operation.store
        self._serialize_foreign_key = _given(operation.foreign_key_serde, "foreign key").serialize
        self._versioned = operation.versioned

    def init(self, ctx: OperatorContext) -> None:
        self._ctx = ctx
        self._subscriptions = ctx.store(self._store)

    def process(self, key: Any, value: Any, context: RecordContext) -> None:
        change: Change = value
        if key is None:
            self._ctx.drop(context, "null key")
            return
        if self._versioned and not change.is_latest:
            self._ctx.drop(context, _OUT_OF_ORDER)
            return
        row, forward = change.new, self.forward
        prefix = combined_key_prefix(self._serialize_foreign_key(key))
        for _, (subscription, _) in self._subscriptions.prefix(prefix):
            answer = Answer(subscription.hash, row, subscription.primary_partition)
            forward(subscription.primary_key, answer, context)


class ResponseJoinOperator(Operator):
    """Left table: joins an answer with the row that asked, unless the row has changed since."""

    __slots__ = ("_ctx", "_joiner", "_left", "_rows", "_serialize_value", "_view")

    _rows: ValueGetter

    def __init__(self, operation: ResponseJoin) -> None:
        self._view = operation.primary_table
        self._serialize_value = _given(operation.value_serde, "value").serialize
        self._joiner = operation.joiner
        self._left = operation.left

    def init(self, ctx: OperatorContext) -> None:
        self._ctx = ctx
        self._rows = ctx.view(self._view)

    def process(self, key: Any, value: Any, context: RecordContext) -> None:
        found = self._rows.get(key)
        row: Any = None if found is None else found.value
        current = None if row is None else murmur3_128(self._serialize_value(row))
        if value.hash != current:
            self._ctx.drop(context, "the row has changed since it asked for the foreign row")
            return
        foreign_row = value.value
        if foreign_row is None and (row is None or not self._left):
            self.forward(key, None, context)
        else:
            self.forward(key, self._joiner(key, row, foreign_row), context)


def _given(serde: SerdeRef, what: str) -> Serde[Any]:
    if not isinstance(serde, Serde):
        raise ConfigError(f"A foreign-key join needs the {what} serde, and there is no default")
    return serde
