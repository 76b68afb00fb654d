"""Whether a user's function only reads its arguments, told by its bytecode."""

from __future__ import annotations

import dis
from types import FunctionType
from typing import Any

_HARMLESS = frozenset(
    {
        "CACHE",
        "COMPARE_OP",
        "CONTAINS_OP",
        "COPY",
        "EXTENDED_ARG",
        "IS_OP",
        "JUMP_FORWARD",
        "LOAD_CONST",
        "LOAD_SMALL_INT",
        "NOP",
        "NOT_TAKEN",
        "POP_TOP",
        "RESUME",
        "RETURN_CONST",
        "RETURN_VALUE",
        "SWAP",
        "TO_BOOL",
        "UNARY_NOT",
    }
)
_HARMLESS_KINDS = ("LOAD_FAST", "POP_JUMP", "JUMP_IF")


def only_reads(function: Any, fields: frozenset[str]) -> bool:
    """Whether the function does nothing but read these fields, compare and return: it calls and assigns nothing."""
    if not isinstance(function, FunctionType) or function.__closure__ or function.__code__.co_flags & 0x20:
        return False
    for instruction in dis.get_instructions(function):
        name = instruction.opname
        if name == "LOAD_ATTR":
            if instruction.argval not in fields:
                return False
        elif name not in _HARMLESS and not name.startswith(_HARMLESS_KINDS):
            return False
    return True
