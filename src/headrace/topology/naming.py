"""Names: generated ones are a prefix and a running number, as in Kafka Streams; given ones must be legal."""

from __future__ import annotations

import re

from headrace.errors import TopologyError

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")
_MAX_LENGTH = 249


class Names:
    """Hands out generated names. Every operator takes a number, also where the user named it."""

    def __init__(self) -> None:
        self._next = 0

    def processor(self, prefix: str) -> str:
        """The next generated name of a node."""
        return f"{prefix}{self._take():010d}"

    def store(self, prefix: str) -> str:
        """The next generated name of a store."""
        return f"{prefix}STATE-STORE-{self._take():010d}"

    def given_or(self, name: str | None, prefix: str) -> str:
        """The user's name, or a generated one; either way a number is used up."""
        generated = self.processor(prefix)
        return generated if name is None else check_name(name)

    def suffixed_or(self, name: str | None, suffix: str, prefix: str) -> str:
        """The user's name with a suffix, or a generated one; either way a number is used up."""
        return self.given_or(None if name is None else name + suffix, prefix)

    def _take(self) -> int:
        number = self._next
        self._next += 1
        return number


def check_name(name: str, what: str = "name") -> str:
    """The name, if it can be part of a topic's name."""
    if not isinstance(name, str) or not name or name in (".", ".."):
        raise TopologyError(f"{what} {name!r} is illegal: it must be a non-empty string other than '.' and '..'")
    if len(name) > _MAX_LENGTH:
        raise TopologyError(f"{what} {name!r} is illegal: it is longer than {_MAX_LENGTH} characters")
    if not _LEGAL.fullmatch(name):
        raise TopologyError(f"{what} {name!r} is illegal: only letters, digits, '.', '_' and '-' may be in it")
    return name
