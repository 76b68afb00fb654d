"""Says what went wrong in a few lines."""

from __future__ import annotations

import re

from headrace.errors import HeadraceError

_OURS = re.compile(r"^\s*(?:pyspark\.\S*: )?headrace\.[\w.]*?\w+(?:Error|Failed): (?P<message>.+)$")
_PYTHONS = re.compile(r"^(?P<kind>[A-Za-z_][\w.]*(?:Error|Exception|Exit|Failed)): (?P<message>.+)$")
_TRACE = re.compile(r"^\s*(at |File \"|Traceback |\.\.\. \d+ more|Caused by: |SQLSTATE: |=== )|^\s*$|^\s+\S*\^+")
_SQLSTATE = re.compile(r"(\s+SQLSTATE: \w+)+\s*$")
_MOST_LINES = 6


def explain(error: BaseException) -> str:
    """The message of an error; of one that went through Spark, that of its cause."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, HeadraceError):
            return str(seen)
        seen = seen.__cause__
    lines = str(error).splitlines()
    return _last(lines, _OURS) or _last(lines, _PYTHONS) or f"{type(error).__name__}: {lines[0] if lines else ''}"


def _last(lines: list[str], pattern: re.Pattern[str]) -> str | None:
    """What the last line says that names an error, with the lines of the message that follow it."""
    for number in range(len(lines) - 1, -1, -1):
        matched = pattern.match(lines[number])
        if matched is None or matched["message"].startswith("An exception was raised by the Python Proxy"):
            continue
        message = _SQLSTATE.sub("", matched["message"])
        kind = matched.groupdict().get("kind")
        told = [f"{kind.rpartition('.')[2]}: {message}" if kind else message]
        for line in lines[number + 1 : number + _MOST_LINES]:
            if _TRACE.match(line):
                break
            told.append(line)
        return "\n".join(told)
    return None
