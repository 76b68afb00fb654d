"""`headrace query`: what is in a store of a running application."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from headrace.cli.terminal import Terminal
from headrace.client import Client, ClientError, ClientStore, Entry, KeyText


@dataclass(frozen=True)
class Question:
    """What is asked of a store."""

    store: str
    key: str | None = None
    low: str | None = None
    high: str | None = None
    prefix: str | None = None
    as_of: str | None = None
    limit: int = 100


def query(url: str, token: str | None, question: Question, terminal: Terminal, *, as_json: bool) -> bool:
    """Shows what was asked for; answers whether there was anything."""
    with Client(url, token=token) as client:
        kinds = {store["name"]: store["kind"] for store in client.stores()}
        if question.store not in kinds:
            known = ", ".join(sorted(kinds)) or "none"
            raise ClientError(f"There is no store {question.store} that can be asked. The stores: {known}.")
        entries = _entries(client.store(question.store), kinds[question.store], question)
        found = list(islice(entries, question.limit + 1))
    for entry in found[: question.limit]:
        terminal.say(json.dumps(_plain(entry)) if as_json else _line(entry))
    if len(found) > question.limit:
        terminal.errors.print(f"There are more than {question.limit}; ask for more with --limit.")
    if not found:
        terminal.complain(f"{question.store} has nothing for that.")
    return bool(found)


def _entries(store: ClientStore, kind: str, question: Question) -> Iterator[Entry]:
    key = None if question.key is None else KeyText(question.key)
    if "window" in kind:
        return store.windows(key, question.low, question.high)
    if kind == "session":
        return store.sessions(key, question.low, question.high)
    if key is not None:
        entry = store.entry(key, question.as_of)
        return iter(() if entry is None else (entry,))
    if question.prefix is not None:
        return store.prefix(question.prefix)
    low, high = (None if end is None else KeyText(end) for end in (question.low, question.high))
    return store.range(low, high)


def _line(entry: Entry) -> str:
    window = "" if entry.window is None else f"[{entry.window[0]}, {entry.window[1]})\t"
    return f"{_text(entry.key)}\t{window}{_text(entry.value)}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _plain(entry: Entry) -> dict[str, Any]:
    return {name: value for name, value in asdict(entry).items() if value is not None or name == "value"}
