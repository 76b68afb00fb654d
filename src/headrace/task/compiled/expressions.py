"""The expressions of a method as part of other code: names, constants and calls, decided as far as they can be."""

from __future__ import annotations

import ast
import builtins
import inspect
from typing import Any, Protocol

from headrace.record import Change, RecordContext
from headrace.serdes.direct import DIRECT, direct_decoder, direct_encoder
from headrace.task.compiled.method import Method, NotCompilable, assigned_names, changing_attributes
from headrace.task.compiled.syntax import (
    Known,
    Path,
    assign,
    call,
    copied,
    is_simple,
    known_of,
    name,
    part_of,
    parts_of,
    with_parts,
)
from headrace.topology.functions import DropsKey

_FIELDS: dict[Any, tuple[str, ...]] = {
    RecordContext: RecordContext.__struct_fields__,
    Change: Change._fields,
}
"""What travels from node to node, and need not be made where the next node only looks at its fields."""
_CONTEXT_DEFAULTS: dict[Any, dict[str, Any]] = {Change: {"is_latest": True}}
_SETTLED = ("cached", "is_versioned")
"""Attributes of stores and views that say what they are."""
_SETTLED_MODULES = ("headrace.operators.views", "headrace.serdes.plain", "headrace.state.live")
"""Modules of classes whose attributes nobody assigns but they themselves."""


class Surroundings(Protocol):
    """The function that a method's code becomes part of."""

    def known(self, value: Any, path: Path) -> ast.expr:
        """Code for an object that is found at a place."""
        ...

    def unused(self, stem: str) -> str:
        """A name that nothing else in the function has."""
        ...

    def raw_form(self, function: Known, argument: ast.expr, owner: Any) -> ast.expr | None:
        """The bytes that an argument of a serde's function was read from, if they can be passed on instead."""
        ...

    def is_given(self, function: ast.expr, arguments: list[ast.expr]) -> None:
        """Is told what functions are called with."""
        ...

    def is_edge(self, function: Any) -> bool:
        """Whether the function passes records to other nodes."""
        ...

    def passed_on(self, edge: Any, arguments: list[ast.expr]) -> list[ast.stmt]:
        """The code of the nodes that an edge passes records to."""
        ...


class Expressions:
    """Translates what a method of an object reads, calls and assigns to."""

    def __init__(self, surroundings: Surroundings, this: Known, runtime_self: ast.expr, method: Method) -> None:
        self._surroundings = surroundings
        self._this = this
        self._runtime_self = runtime_self
        self._method = method
        self._assigned = assigned_names(method.tree)
        self._names: dict[str, str] = {}
        self._values: dict[str, ast.expr] = {}
        self._hoisted: list[ast.stmt] = []
        self._result: str | None = None

    # --- names -------------------------------------------------------------------------------------------------

    def _local(self, identifier: str) -> str:
        found = self._names.get(identifier)
        if found is None:
            found = self._names[identifier] = self._surroundings.unused(identifier)
        return found

    def _target(self, target: ast.expr) -> ast.expr:
        if isinstance(target, ast.Name):
            return ast.Name(self._local(target.id), ast.Store())
        if isinstance(target, ast.Tuple):
            return ast.Tuple([self._target(each) for each in target.elts], ast.Store())
        if isinstance(target, ast.Attribute):
            return ast.Attribute(self._holder(target.value), target.attr, ast.Store())
        if isinstance(target, ast.Subscript):
            return ast.Subscript(self.expression(target.value), self.expression(target.slice), target.ctx)
        raise NotCompilable(f"an assignment to {type(target).__name__}")

    def _holder(self, node: ast.expr) -> ast.expr:
        """The object whose attribute is assigned."""
        if isinstance(node, ast.Name) and node.id == "self":
            return copied(self._runtime_self)
        return self.expression(node)

    def _simple(self, arguments: list[ast.expr]) -> list[ast.expr]:
        """The arguments, with those that are not simple assigned to variables before."""
        return [self._simple_one(self.expression(argument)) for argument in arguments]

    def _simple_one(self, value: ast.expr) -> ast.expr:
        parts = parts_of(value)
        if parts is not None and all(map(is_simple, parts.values())):
            return value
        if isinstance(value, ast.Call) and not value.keywords:
            made = known_of(value.func)
            fields = None if made is None or not isinstance(made.value, type) else _FIELDS.get(made.value)
            if made is not None and fields is not None:
                given = [self._simple_one(argument) for argument in value.args]
                parts = dict(zip(fields, given, strict=False))
                for field, default in _CONTEXT_DEFAULTS.get(made.value, {}).items():
                    parts.setdefault(field, ast.Constant(default))
                return with_parts(call(value.func, *map(copied, given)), parts)
        if is_simple(value):
            return value
        variable = self._surroundings.unused("x")
        self._hoisted.append(assign(variable, value))
        return name(variable)

    # --- expressions -------------------------------------------------------------------------------------------

    def expression(self, node: ast.expr) -> ast.expr:
        """The expression as translated, decided as far as it can be."""
        translate = getattr(self, f"_{type(node).__name__.lower()}_", None)
        if translate is not None:
            result: ast.expr = translate(node)
            return result
        if isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp | ast.NamedExpr):
            return self._nested(node)
        for field, value in ast.iter_fields(node):
            if isinstance(value, ast.expr):
                setattr(node, field, self.expression(value))
            elif isinstance(value, list):
                setattr(node, field, [self.expression(v) if isinstance(v, ast.expr) else v for v in value])
            elif isinstance(value, ast.keyword):
                value.value = self.expression(value.value)
        return node

    def _nested(self, node: ast.expr) -> ast.expr:
        """An expression with names of its own, or one that assigns; only what it reads is translated."""
        if isinstance(node, ast.NamedExpr):
            return ast.NamedExpr(ast.Name(self._local(node.target.id), ast.Store()), self.expression(node.value))
        if isinstance(node, ast.Lambda) and not node.args.args:
            return ast.Lambda(node.args, self.expression(node.body))
        raise NotCompilable(f"an expression {type(node).__name__}")

    def _name_(self, node: ast.Name) -> ast.expr:
        identifier = node.id
        if identifier in self._values:
            return copied(self._values[identifier])
        if identifier == "self":
            return self._surroundings.known(self._this.value, self._this.path)
        if identifier in self._assigned:
            return name(self._local(identifier))
        if identifier in self._method.globals:
            return self._surroundings.known(
                self._method.globals[identifier], (f"global:{self._method.module}", identifier)
            )
        if hasattr(builtins, identifier):
            return node
        raise NotCompilable(f"the name {identifier}")

    def _attribute_(self, node: ast.Attribute) -> ast.expr:
        if isinstance(node.value, ast.Name) and node.value.id == "self":
            this = self._this
            is_bound = inspect.isfunction(getattr(type(this.value), node.attr, None))
            if node.attr in changing_attributes(type(this.value)) or (is_bound and not known_of(self._runtime_self)):
                return ast.Attribute(copied(self._runtime_self), node.attr, ast.Load())
            return self._surroundings.known(getattr(this.value, node.attr), (*this.path, node.attr))
        base = self.expression(node.value)
        part = part_of(base, node.attr)
        if part is not None:
            return part
        found = known_of(base)
        if found is not None and found.path and _is_settled(found.value, node.attr):
            return self._surroundings.known(getattr(found.value, node.attr), (*found.path, node.attr))
        return ast.Attribute(base, node.attr, ast.Load())

    def _call_(self, node: ast.Call) -> ast.expr:
        moved = self._moved_context(node)
        if moved is not None:
            return moved
        function = self.expression(node.func)
        arguments = [self.expression(argument) for argument in node.args]
        for keyword in node.keywords:
            keyword.value = self.expression(keyword.value)
        found = known_of(function)
        if found is not None and isinstance(found.value, DropsKey) and is_simple(arguments[0]):
            function = self._surroundings.known(found.value.function, (*found.path, "function"))
            arguments = arguments[1:]
        elif found is not None and len(arguments) == 1 and getattr(self._this.value, "tries_direct", False):
            raw = self._surroundings.raw_form(found, arguments[0], self._this.value)
            direct = self._direct(found, arguments[0]) if raw is None else raw
            if direct is not None:
                return direct
        self._surroundings.is_given(function, arguments)
        return ast.Call(function, arguments, node.keywords)

    def _direct(self, function: Known, argument: ast.expr) -> ast.expr | None:
        """The call of a serde's function in its direct form, which is tried first."""
        if not is_simple(argument):
            return None
        encoder = direct_encoder(function.value)
        if isinstance(encoder, tuple):
            of = self._surroundings.known(encoder.type, (*function.path, DIRECT, "type"))
            test = ast.Compare(call(name("type"), copied(argument)), [ast.Is()], [of])
            encoded = call(
                self._surroundings.known(encoder.encode, (*function.path, DIRECT, "encode")), copied(argument)
            )
            return ast.IfExp(test, encoded, call(self._surroundings.known(function.value, function.path), argument))
        decoder = direct_decoder(function.value)
        if decoder is None:
            return None
        decoded = call(self._surroundings.known(decoder, (*function.path, DIRECT)), copied(argument))
        return ast.IfExp(ast.Compare(copied(argument), [ast.Is()], [ast.Constant(None)]), ast.Constant(None), decoded)

    def _moved_context(self, node: ast.Call) -> ast.expr | None:
        """`context.at(time)` and `context.carrying(time, headers)` without making a context, if that is what it is."""
        method = node.func
        if not isinstance(method, ast.Attribute) or method.attr not in ("at", "carrying"):
            return None
        context = self.expression(method.value)
        is_context = parts_of(context) is not None or getattr(context, "is_context", False)
        if not is_context:
            return None
        changed = [self._simple_one(self.expression(argument)) for argument in node.args]
        fields = dict(zip(("timestamp", "headers"), changed, strict=False))
        parts = parts_of(context)
        base = getattr(context, "base", None)
        if parts is not None and base is None:
            parts = {**parts, **fields}
            assert isinstance(context, ast.Call)
            return with_parts(call(context.func, *map(copied, parts.values())), parts)
        whole = call(ast.Attribute(copied(context), method.attr, ast.Load()), *map(copied, changed))
        return with_parts(whole, fields if parts is None else {**parts, **fields}, context if base is None else base)

    def _compare_(self, node: ast.Compare) -> ast.expr:
        left = self.expression(node.left)
        others = [self.expression(each) for each in node.comparators]
        if len(others) == 1 and isinstance(node.ops[0], ast.Is | ast.IsNot):
            negated = isinstance(node.ops[0], ast.IsNot)
            one, other = known_of(left), known_of(others[0])
            if one is not None and other is not None:
                return ast.Constant((one.value is other.value) is not negated)
            if other is not None and type(other.value) is bool and isinstance(left, ast.UnaryOp):
                # `(not x) is False`: whether x holds
                return left.operand if other.value is negated else left
            if other is not None and other.value is None and parts_of(left) is not None:
                return ast.Constant(negated)
        return ast.Compare(left, node.ops, others)

    def _boolop_(self, node: ast.BoolOp) -> ast.expr:
        is_and = isinstance(node.op, ast.And)
        left: list[ast.expr] = []
        for index, each in enumerate(node.values):
            value = self.expression(each)
            found = decided(value)
            if found is None:
                left.append(value)
            elif bool(found.value) is not is_and:
                # The rest is not looked at. The value is only that of the whole if it is the last one.
                left.append(value)
                break
            elif index == len(node.values) - 1 and left:
                left.append(value)
            elif index == len(node.values) - 1:
                return value
        return left[0] if len(left) == 1 else ast.BoolOp(node.op, left)

    def _unaryop_(self, node: ast.UnaryOp) -> ast.expr:
        operand = self.expression(node.operand)
        found = decided(operand)
        if isinstance(node.op, ast.Not) and found is not None:
            return ast.Constant(not found.value)
        return ast.UnaryOp(node.op, operand)

    def _ifexp_(self, node: ast.IfExp) -> ast.expr:
        test = self.expression(node.test)
        found = decided(test)
        if found is not None:
            return self.expression(node.body if found.value else node.orelse)
        return ast.IfExp(test, self.expression(node.body), self.expression(node.orelse))


def _is_settled(value: Any, attribute: str) -> bool:
    if attribute in _SETTLED:
        return True
    if inspect.isroutine(getattr(type(value), attribute, None)):
        return True
    of = type(value)
    return of.__module__ in _SETTLED_MODULES and attribute not in changing_attributes(of)


def decided(node: ast.expr) -> ast.Constant | None:
    """The value that the code is known to have; of other objects only their identity is known."""
    return node if isinstance(node, ast.Constant) else None
