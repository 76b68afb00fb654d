"""Groups of connected nodes, numbered in the order of their first node: the sub-topologies."""

from __future__ import annotations

from collections.abc import Iterable


class NodeGroups:
    """Unites nodes that are connected by an edge or by a store."""

    def __init__(self) -> None:
        self._leader: dict[str, str] = {}

    def add(self, name: str, parents: Iterable[str]) -> None:
        """Adds a node to the group of its parents, whose groups become one."""
        self._leader[name] = name
        for parent in parents:
            self.unite(parent, name)

    def unite(self, one: str, other: str) -> None:
        """Makes one group of the two nodes' groups."""
        self._leader[self._find(other)] = self._find(one)

    def numbered(self) -> dict[int, list[str]]:
        """The groups by number, each with its nodes in the order they were added."""
        members: dict[str, list[str]] = {}
        for name in self._leader:
            members.setdefault(self._find(name), []).append(name)
        return dict(enumerate(members.values()))

    def _find(self, name: str) -> str:
        while self._leader[name] != name:
            name = self._leader[name]
        return name
