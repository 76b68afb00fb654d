"""Settings as Java's properties files have them."""

from __future__ import annotations

import re
from collections.abc import Mapping


def java_properties(settings: Mapping[str, object]) -> str:
    """The content of a properties file."""
    return "".join(f"{_escaped(name)}={_escaped(str(value))}\n" for name, value in settings.items())


def _escaped(text: str) -> str:
    """Backslash escapes, and nothing but ASCII."""
    escaped = re.sub(r"([\\ =:#!])", r"\\\1", text)
    escaped = escaped.replace("\n", r"\n").replace("\r", r"\r").replace("\t", r"\t")
    units = escaped.encode("utf-16-be")
    codes = (int.from_bytes(units[i : i + 2], "big") for i in range(0, len(units), 2))
    return "".join(chr(code) if code < 128 else f"\\u{code:04x}" for code in codes)
