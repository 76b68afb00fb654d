"""A method's code as part of other code: its object and its arguments are known, so much of it is decided already."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable
from types import FunctionType
from typing import Any

from headrace.task.compiled.expressions import Expressions, decided
from headrace.task.compiled.method import Method, NotCompilable, method_of
from headrace.task.compiled.syntax import (
    Known,
    assign,
    body,
    copied,
    is_simple,
    known_of,
    parts_of,
    without_returns,
)


class Scope(Expressions):
    """Translates one method of one object."""

    def code(self, arguments: Iterable[ast.expr], result: str | None = None) -> list[ast.stmt]:
        """The method's code for these arguments, which must be simple, without `return`.

        What would be returned is assigned to the variable `result`.
        """
        self._result = result
        prelude: list[ast.stmt] = []
        for parameter, argument in zip(self._method.parameters, arguments, strict=True):
            if parameter in self._assigned:
                # What it was given is one value that it has, what is assigned another: no constant stands for it.
                self._assigned[parameter] += 1
                prelude.append(assign(self._local(parameter), argument))
            else:
                self._values[parameter] = argument
        return [*prelude, *without_returns(self.statements(copy.deepcopy(self._method.tree.body)))]

    # --- statements --------------------------------------------------------------------------------------------

    def statements(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """The statements as translated, one after the other."""
        result: list[ast.stmt] = []
        for statement in statements:
            translated = self._statement(statement)
            result += self._hoisted
            self._hoisted = []
            result += translated
            if translated and isinstance(translated[-1], ast.Return | ast.Raise | ast.Continue | ast.Break):
                break
        return result

    def _statement(self, statement: ast.stmt) -> list[ast.stmt]:
        translate = getattr(self, f"_{type(statement).__name__.lower()}", None)
        if translate is None:
            raise NotCompilable(f"a statement {type(statement).__name__}")
        result: list[ast.stmt] = translate(statement)
        return result

    def _expr(self, statement: ast.Expr) -> list[ast.stmt]:
        value = statement.value
        if isinstance(value, ast.Constant):
            return []
        put_in = self._put_in(value, None)
        return [ast.Expr(self.expression(value))] if put_in is None else put_in

    def _put_in(self, value: ast.expr, result: str | None) -> list[ast.stmt] | None:
        """The code of a function that is called, with what it returns in `result`; None if it has to be called."""
        if not isinstance(value, ast.Call) or value.keywords:
            return None
        function, arguments = known_of(self.expression(copy.deepcopy(value.func))), value.args
        if function is None or not function.path:
            return None
        if result is None and self._surroundings.is_edge(function.value):
            return self._surroundings.passed_on(function.value, self._simple(arguments))
        owner: Any = getattr(function.value, "__self__", None)
        attribute = function.path[-1]
        own = getattr(type(owner), attribute, None)
        if owner is None or not isinstance(own, FunctionType):
            return None
        hoisted = list(self._hoisted)
        try:
            method = method_of(own)
            is_own = owner is self._this.value
            passes_on = is_own and result is None and _mentions_forward(method)
            if attribute not in getattr(owner, "put_in", ()) and not passes_on:
                return None
            this = self._this if is_own else Known(owner, (*function.path, "__self__"))
            inner = Scope(self._surroundings, this, self._surroundings.known(*this), method)
            return inner.code(self._simple(copy.deepcopy(arguments)), result)
        except NotCompilable:
            self._hoisted = hoisted
            return None

    def _assign(self, statement: ast.Assign) -> list[ast.stmt]:
        if len(statement.targets) != 1:
            value = self.expression(statement.value)
            return [ast.Assign([self._target(target) for target in statement.targets], value)]
        return self._assigned_one(statement.targets[0], statement.value)

    def _annassign(self, statement: ast.AnnAssign) -> list[ast.stmt]:
        return [] if statement.value is None else self._assigned_one(statement.target, statement.value)

    def _assigned_one(self, target: ast.expr, value: ast.expr) -> list[ast.stmt]:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            values = [self.expression(each) for each in value.elts]
            pairs = list(zip(target.elts, values, strict=True))
            if any(self._is_alias(each, found) for each, found in pairs):
                # The others do not read what is assigned here: aliases stand for what is known.
                left = [(each, found) for each, found in pairs if not self._alias(each, found)]
                return [ast.Assign([self._target(each)], found) for each, found in left]
            return [ast.Assign([self._target(target)], ast.Tuple(values, ast.Load()))]
        if isinstance(target, ast.Name):
            put_in = self._put_in(value, self._local(target.id))
            if put_in is not None:
                return put_in
        found = self.expression(value)
        parts = parts_of(found)
        if isinstance(target, ast.Tuple) and parts is not None and len(parts) == len(target.elts):
            return [
                statement
                for each, part in zip(target.elts, parts.values(), strict=True)
                for statement in self._given(each, copied(part))
            ]
        return self._given(target, found)

    def _given(self, target: ast.expr, value: ast.expr) -> list[ast.stmt]:
        return [] if self._alias(target, value) else [ast.Assign([self._target(target)], value)]

    def _is_alias(self, target: ast.expr, value: ast.expr) -> bool:
        """Whether the target is another name for something that stays what it is."""
        return (
            isinstance(target, ast.Name)
            and self._assigned[target.id] == 1
            and (known_of(value) is not None or self._is_from_outside(value))
        )

    def _is_from_outside(self, value: ast.expr) -> bool:
        """Whether the value is what the method was given, or a part of that: this does not change."""
        own = self._names.values()
        return is_simple(value) and not any(isinstance(node, ast.Name) and node.id in own for node in ast.walk(value))

    def _alias(self, target: ast.expr, value: ast.expr) -> bool:
        if isinstance(target, ast.Name) and self._is_alias(target, value):
            self._values[target.id] = value
            return True
        return False

    def _augassign(self, statement: ast.AugAssign) -> list[ast.stmt]:
        value = self.expression(statement.value)
        return [ast.AugAssign(self._target(statement.target), statement.op, value)]  # type: ignore[arg-type]

    def _if(self, statement: ast.If) -> list[ast.stmt]:
        test = self.expression(statement.test)
        found = decided(test)
        if found is not None:
            return self.statements(statement.body if found.value else statement.orelse)
        hoisted, self._hoisted = self._hoisted, []
        result: list[ast.stmt] = [
            *hoisted,
            ast.If(test, body(self.statements(statement.body)), self.statements(statement.orelse)),
        ]
        return result

    def _for(self, statement: ast.For) -> list[ast.stmt]:
        over = self.expression(statement.iter)
        found = known_of(over)
        if found is not None and isinstance(found.value, tuple) and found.path:
            return self._unrolled(statement, found)
        if statement.orelse:
            raise NotCompilable("a loop with an else")
        hoisted, self._hoisted = self._hoisted, []
        return [*hoisted, ast.For(self._target(statement.target), over, body(self.statements(statement.body)), [])]

    def _unrolled(self, statement: ast.For, over: Known) -> list[ast.stmt]:
        """A loop over objects that are known, one after the other."""
        if any(isinstance(node, ast.Break | ast.Continue) for node in ast.walk(statement)):
            raise NotCompilable("a loop to be unrolled that is left in the middle")
        if any(
            isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            for each in statement.body
            for node in ast.walk(each)
        ):
            raise NotCompilable("a loop to be unrolled that assigns")
        result: list[ast.stmt] = []
        for index, item in enumerate(over.value):
            place = (*over.path, f"[{index}]")
            if isinstance(statement.target, ast.Tuple):
                for number, (target, value) in enumerate(zip(statement.target.elts, item, strict=True)):
                    assert isinstance(target, ast.Name)
                    self._values[target.id] = self._surroundings.known(value, (*place, f"[{number}]"))
            else:
                assert isinstance(statement.target, ast.Name)
                self._values[statement.target.id] = self._surroundings.known(item, place)
            result += self.statements(copy.deepcopy(statement.body))
        return result

    def _while(self, statement: ast.While) -> list[ast.stmt]:
        test = self.expression(statement.test)
        if self._hoisted or statement.orelse:
            raise NotCompilable("a condition that takes statements")
        return [ast.While(test, body(self.statements(statement.body)), [])]

    def _try(self, statement: ast.Try) -> list[ast.stmt]:
        handlers = []
        tried = body(self.statements(statement.body))
        for handler in statement.handlers:
            kind = None if handler.type is None else self.expression(handler.type)
            identifier = None if handler.name is None else self._local(handler.name)
            handlers.append(ast.ExceptHandler(kind, identifier, body(self.statements(handler.body))))
        return [ast.Try(tried, handlers, self.statements(statement.orelse), self.statements(statement.finalbody))]

    def _raise(self, statement: ast.Raise) -> list[ast.stmt]:
        error = None if statement.exc is None else self.expression(statement.exc)
        return [ast.Raise(error, None if statement.cause is None else self.expression(statement.cause))]

    def _delete(self, statement: ast.Delete) -> list[ast.stmt]:
        return [ast.Delete([self._target(target) for target in statement.targets])]

    def _return(self, statement: ast.Return) -> list[ast.stmt]:
        if statement.value is None or self._result is None:
            return [statement]
        put_in = self._put_in(statement.value, self._result)
        if put_in is None:
            put_in = [assign(self._result, self.expression(statement.value))]
        return [*put_in, ast.Return()]

    def _continue(self, statement: ast.Continue) -> list[ast.stmt]:
        return [statement]

    def _break(self, statement: ast.Break) -> list[ast.stmt]:
        return [statement]

    def _pass(self, statement: ast.Pass) -> list[ast.stmt]:
        return []


def _mentions_forward(method: Method) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr == "forward" for node in ast.walk(method.tree))
