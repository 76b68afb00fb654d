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
_HARMLESS_KINDS = ("POP_JUMP", "JUMP_IF")
_COMPARING = ("COMPARE_OP", "CONTAINS_OP", "IS_OP")
_LOOKING = ("LOAD_ATTR", "POP_TOP", "TO_BOOL", "UNARY_NOT")


def only_reads(function: Any, fields: frozenset[str], scalars: frozenset[str]) -> bool:
    """Whether the function does nothing but read these fields, compare and return: it calls and assigns nothing.

    What it returns is neither an argument nor a field other than `scalars`: the next function could change it in place.
    """
    if not isinstance(function, FunctionType) or function.__closure__ or function.__code__.co_flags & 0x20:
        return False
    instructions = list(dis.get_instructions(function))
    for position, instruction in enumerate(instructions):
        name = instruction.opname
        if name == "LOAD_ATTR":
            if instruction.argval not in fields:
                return False
            if instruction.argval in scalars:
                continue
        elif not name.startswith("LOAD_FAST"):
            if name not in _HARMLESS and not name.startswith(_HARMLESS_KINDS):
                return False
            continue
        if not _is_used_up(instructions[position + 1 :]):
            return False
    return True


def _is_used_up(following: list[dis.Instruction]) -> bool:
    """Whether what was just loaded is only looked at by what comes next."""
    if following[0].opname == "LOAD_CONST":
        return following[1].opname in _COMPARING
    return following[0].opname in (*_COMPARING, *_LOOKING) or following[0].opname.startswith("POP_JUMP")
