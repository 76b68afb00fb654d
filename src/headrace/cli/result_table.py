"""The results of a demo as a table that grows and changes while they arrive."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from rich.table import Table


class ResultTable:
    """Rows of cells. One thread may fill it while another shows it."""

    def __init__(self, title: str, keys: Sequence[str], columns: Sequence[str]) -> None:
        self._title = title
        self._keys = tuple(keys)
        self._columns = tuple(columns)
        self._rows: dict[tuple[str, ...], dict[str, str]] = {}
        self._changed: dict[tuple[str, ...], None] = {}
        self._lock = threading.Lock()

    def put(self, cells: Mapping[str, str]) -> None:
        """Changes the cells of a row; it is made if there is none with these keys."""
        row = tuple(cells[name] for name in self._keys)
        with self._lock:
            self._rows.setdefault(row, {}).update(cells)
            self._changed[row] = None

    @property
    def is_empty(self) -> bool:
        """Whether there is no result yet."""
        return not self._rows

    def lines(self) -> list[str]:
        """The rows that have changed since the last call."""
        with self._lock:
            changed, self._changed = sorted(self._changed), {}
            return [self._line(self._rows[row]) for row in changed]

    def all_lines(self) -> list[str]:
        """All rows."""
        with self._lock:
            return [self._line(self._rows[row]) for row in sorted(self._rows)]

    def table(self) -> Table:
        """All rows, for a terminal."""
        table = Table(*self._keys, title=self._title)
        for column in self._columns:
            table.add_column(column, justify="right")
        with self._lock:
            for row in sorted(self._rows):
                table.add_row(*(self._rows[row].get(name, "") for name in (*self._keys, *self._columns)))
        return table

    def _line(self, cells: Mapping[str, str]) -> str:
        keys = " ".join(cells[name] for name in self._keys)
        return " | ".join((keys, *(f"{name} {cells[name]}" for name in self._columns if name in cells)))
