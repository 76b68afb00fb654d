"""The value of a record as it was read: while nobody can have changed it, its bytes stand for it."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from headrace.serdes.direct import DIRECT, REREAD, Reread, reread_of
from headrace.task.compiled.purity import only_reads
from headrace.task.compiled.syntax import Known, Path, copied, part_of
from headrace.task.record_queue import RecordQueue


@dataclass(frozen=True)
class ReadValue:
    """The variable with the value, the code for its bytes, and when these can be passed on."""

    variable: str
    raw: ast.expr
    reread: Reread
    serialize: Path
    """Where the function is found that would be called instead."""

    @classmethod
    def of(cls, queue: RecordQueue, arguments: list[ast.expr]) -> ReadValue | None:
        """Of what a queue passes on: key, value, context; None if it has to be serialized anyway."""
        _, value, context = arguments
        reread, raw = reread_of(queue.deserialize_value), part_of(context, "raw_value")
        if reread is None or raw is None or not isinstance(value, ast.Name):
            return None
        return cls(value.id, raw, reread, ("queue", queue.node, "deserialize_value", REREAD, "serialize"))

    def raw_form(self, function: Known, argument: ast.expr) -> ast.expr | None:
        """The bytes, where this value would be serialized with the serde it was read with."""
        is_this = isinstance(argument, ast.Name) and argument.id == self.variable
        return copied(self.raw) if is_this and function.value is self.reread.serialize else None

    def stays(self, function: Known | None, arguments: list[ast.expr]) -> bool:
        """Whether the value is surely the same after a call."""
        given = (node for argument in arguments for node in ast.walk(argument) if isinstance(node, ast.Name))
        if not any(node.id == self.variable for node in given):
            return True
        if function is None:
            return False
        if hasattr(function.value, DIRECT):
            return True
        return only_reads(function.value, self.reread.fields, self.reread.scalars)
