"""`split`: one stream into several, by predicates."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.dsl.graph import ProcessorGraphNode
from headrace.dsl.options import Branched
from headrace.topology.functions import check_arity
from headrace.topology.location import caller_location
from headrace.topology.naming import check_name
from headrace.topology.operations import Branch, PassThrough

if TYPE_CHECKING:
    from headrace.dsl.stream import KStream


class BranchedKStream:
    """A stream being split; ends with `default_branch()` or `no_default_branch()`, which give the branches by name."""

    def __init__(self, source: KStream, name: str | None) -> None:
        self._source = source
        self._graph = source._graph
        self._name = self._graph.names.given_or(name, "KSTREAM-BRANCH-")
        self._predicates: list[Callable[[Any, Any], Any]] = []
        self._children: list[str] = []
        self._default: str | None = None
        self._branches: dict[str, KStream] = {}
        self._node = source._attach(self._name, self._operation)

    def branch(self, predicate: Callable[[Any, Any], Any], branched: Branched | str | None = None) -> BranchedKStream:
        """Adds a branch for the records that no earlier branch took and for which `predicate(k, v)` holds."""
        check_arity(predicate, f"branch of {self._name!r}", caller_location(), "k, v")
        self._predicates.append(predicate)
        self._children.append(self._add(branched, len(self._predicates)))
        return self

    def default_branch(self, branched: Branched | str | None = None) -> dict[str, KStream]:
        """Adds a branch for all other records and gives all branches by name."""
        self._default = self._add(branched, 0)
        return dict(self._branches)

    def no_default_branch(self) -> dict[str, KStream]:
        """Drops all other records and gives the branches by name."""
        return dict(self._branches)

    def _operation(self) -> Branch:
        return Branch(tuple(self._predicates), tuple(self._children), self._default)

    def _add(self, branched: Branched | str | None, index: int) -> str:
        options = Branched(branched) if isinstance(branched, str) else branched or Branched()
        name = check_name(self._name + (str(index) if options.name is None else options.name))
        self._graph.names.processor(name)
        node = ProcessorGraphNode(name, PassThrough, caller_location())
        self._graph.add(node, self._node)
        branch = self._source._like(name, node)
        continued = branch if options.function is None else options.function(branch)
        if continued is not None:
            self._branches[name] = continued
        return name
