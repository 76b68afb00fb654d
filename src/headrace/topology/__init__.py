"""The plan: frozen nodes, their graph, names, checks and description."""

from headrace.topology.description import TopologyDescription
from headrace.topology.topology import Subtopology, Topology

__all__ = ["Subtopology", "Topology", "TopologyDescription"]
