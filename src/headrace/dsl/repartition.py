"""Repartitioning: the internal topic between a key change and what needs the new key together."""

from __future__ import annotations

import re

from headrace.dsl.graph import Graph, RepartitionGraphNode
from headrace.dsl.options import Partitioner
from headrace.topology.location import caller_location
from headrace.topology.naming import check_name
from headrace.topology.serde_refs import SerdeRef

SUFFIX = "-repartition"
_GENERATED = re.compile(r"KSTREAM.*-[0-9]{10}")


def repartition_node(
    graph: Graph,
    prefix: str,
    key: SerdeRef,
    value: SerdeRef,
    *,
    partitions: int | None = None,
    partitioner: Partitioner | None = None,
) -> RepartitionGraphNode:
    """A repartition through `<prefix>-repartition`, not yet part of the graph. It uses up three numbers."""
    topic = prefix if prefix.endswith(SUFFIX) else prefix + SUFFIX
    check_name(topic, "repartition topic")
    sink = graph.names.processor("KSTREAM-SINK-")
    key_filter = graph.names.processor("KSTREAM-FILTER-")
    source = graph.names.processor("KSTREAM-SOURCE-")
    if not _GENERATED.fullmatch(prefix):
        sink, key_filter, source = f"{topic}-sink", f"{topic}-filter", f"{topic}-source"
    return RepartitionGraphNode(
        topic,
        (key_filter, sink, source),
        key,
        value,
        caller_location(),
        partitions=partitions,
        partitioner=partitioner,
    )
