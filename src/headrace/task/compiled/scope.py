"""A method's code as part of other code: its object and its arguments are known, so much of it is decided already."""

from __future__ import annotations

import ast
import builtins
import copy
import inspect
from collections.abc import Iterable
from types import FunctionType
from typing import Any, Protocol

from headrace.record import Change, RecordContext
from headrace.serdes.direct import DIRECT, direct_decoder, direct_encoder
from headrace.task.compiled.method import Method, NotCompilable, assigned_names, changing_attributes, method_of
from headrace.task.compiled.syntax import (
    Known,
    Path,
    assign,
    body,
    call,
    copied,
    is_simple,
    known_of,
    name,
    part_of,
    parts_of,
    with_parts,
    without_returns,
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


class Scope:
    """Translates one method of one object."""

    def __init__(self, surroundings: Surroundings, this: Known, runtime_self: ast.expr, method: Method) -> None:
        self._surroundings = surroundings
        self._this = this
        self._runtime_self = runtime_self
        self._method = method
        self._assigned = assigned_names(method.tree)
        self._names: dict[str, str] = {}
        self._values: dict[str, ast.expr] = {}
        self._hoisted: list[ast.stmt] = []

    def code(self, arguments: Iterable[ast.expr]) -> list[ast.stmt]:
        """The method's code for these arguments, which must be simple, without `return`."""
        prelude: list[ast.stmt] = []
        for parameter, argument in zip(self._method.parameters, arguments, strict=True):
            if parameter in self._assigned:
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
        if isinstance(value, ast.Call) and not value.keywords:
            found = known_of(self.expression(copy.deepcopy(value.func)))
            if found is not None and found.path:
                put_in = self._put_in(found, value.args)
                if put_in is not None:
                    return put_in
        return [ast.Expr(self.expression(value))]

    def _put_in(self, function: Known, arguments: list[ast.expr]) -> list[ast.stmt] | None:
        """The code of a function that is called for its effects; None if it has to be called."""
        if self._surroundings.is_edge(function.value):
            return self._surroundings.passed_on(function.value, self._simple(arguments))
        owner: Any = getattr(function.value, "__self__", None)
        attribute = function.path[-1]
        own = getattr(type(owner), attribute, None)
        if owner is None or not isinstance(own, FunctionType):
            return None
        hoisted = list(self._hoisted)
        try:
            method = method_of(own)
            if attribute not in getattr(owner, "put_in", ()) and not (
                owner is self._this.value and _mentions_forward(method)
            ):
                return None
            this = Known(owner, function.path[:-1])
            inner = Scope(self._surroundings, this, self._surroundings.known(*this), method)
            return inner.code(self._simple(copy.deepcopy(arguments)))
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
        decided = _decided(test)
        if decided is not None:
            return self.statements(statement.body if decided.value else statement.orelse)
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
        return [statement]

    def _continue(self, statement: ast.Continue) -> list[ast.stmt]:
        return [statement]

    def _break(self, statement: ast.Break) -> list[ast.stmt]:
        return [statement]

    def _pass(self, statement: ast.Pass) -> list[ast.stmt]:
        return []

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
            decided = _decided(value)
            if decided is None:
                left.append(value)
            elif bool(decided.value) is not is_and:
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
        decided = _decided(operand)
        if isinstance(node.op, ast.Not) and decided is not None:
            return ast.Constant(not decided.value)
        return ast.UnaryOp(node.op, operand)

    def _ifexp_(self, node: ast.IfExp) -> ast.expr:
        test = self.expression(node.test)
        decided = _decided(test)
        if decided is not None:
            return self.expression(node.body if decided.value else node.orelse)
        return ast.IfExp(test, self.expression(node.body), self.expression(node.orelse))


def _mentions_forward(method: Method) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr == "forward" for node in ast.walk(method.tree))


def _is_settled(value: Any, attribute: str) -> bool:
    if attribute in _SETTLED:
        return True
    if inspect.isroutine(getattr(type(value), attribute, None)):
        return True
    of = type(value)
    return of.__module__ in _SETTLED_MODULES and attribute not in changing_attributes(of)


def _decided(node: ast.expr) -> ast.Constant | None:
    """The value that the code is known to have; of other objects only their identity is known."""
    return node if isinstance(node, ast.Constant) else None
