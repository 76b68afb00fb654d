"""Values to bytes and back, in Kafka's own binary forms."""

from headrace.serdes.serde import Serde
from headrace.serdes.serdes import Serdes

__all__ = ["Serde", "Serdes"]
