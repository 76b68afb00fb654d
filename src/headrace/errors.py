"""Every error Headrace raises on purpose.

HeadraceError
├── TopologyError            the topology is wrong; found while it is built
│   └── ArityError           a function takes the wrong number of arguments
├── ConfigError              a setting is wrong or missing
├── SerializationError       bytes or a value do not fit a serde
├── StreamsError             processing failed and the handlers said stop
│   ├── DeserializationFailed
│   ├── ProcessingFailed
│   ├── ProductionFailed
│   ├── InvalidTimestampError
│   ├── FencedError          another process runs the application now
│   └── WorkerLost           a process that ran a part of a batch died, again and again
├── StoreError               a store was used in a way it does not allow
│   ├── UnknownStoreError
│   └── BufferFullError      a suppress buffer that shuts down when full is full
├── UnknownTopicError
└── EnvironmentFailed        something Headrace needs on the machine is missing
    ├── KafkaAway            Kafka does not answer at this moment
    ├── RecordsLost          Kafka has deleted records before they were read
    └── DiskFull             there is no room left for state
"""

from __future__ import annotations

__all__ = [
    "ArityError",
    "BufferFullError",
    "ConfigError",
    "DeserializationFailed",
    "DiskFull",
    "EnvironmentFailed",
    "FencedError",
    "HeadraceError",
    "InvalidTimestampError",
    "KafkaAway",
    "ProcessingFailed",
    "ProductionFailed",
    "RecordsLost",
    "SerializationError",
    "StoreError",
    "StreamsError",
    "TopologyError",
    "UnknownStoreError",
    "UnknownTopicError",
    "WorkerLost",
]


class HeadraceError(Exception):
    """The base of every error Headrace raises on purpose."""


class TopologyError(HeadraceError):
    """The topology is wrong; the message names the node and the user's own line."""


class ArityError(TopologyError):
    """A function takes the wrong number of arguments for the operator it was given to."""


class ConfigError(HeadraceError):
    """A setting is wrong or missing."""


class SerializationError(HeadraceError):
    """Bytes or a value do not fit a serde."""


class StreamsError(HeadraceError):
    """Processing failed and the handlers said stop."""


class DeserializationFailed(StreamsError):
    """A record could not be deserialized and the handler said stop."""


class ProcessingFailed(StreamsError):
    """A node raised while it processed a record and the handler said stop."""


class RecordTooLarge(StreamsError):
    """A record is larger than the producer sends: what `production_exception_handler` is asked about."""


class ProductionFailed(StreamsError):
    """A record could not be serialized or produced and the handler said stop."""


class InvalidTimestampError(StreamsError):
    """A record has a negative timestamp and the extractor does not accept that."""


class FencedError(StreamsError):
    """Another process runs the same application now; this one may no longer write."""


class WorkerLost(StreamsError):
    """A process that ran a part of a batch died, again and again."""


class StoreError(HeadraceError):
    """A store was used in a way it does not allow."""


class UnknownStoreError(StoreError):
    """No store of that name exists, or it is not connected to the asking node."""


class BufferFullError(StoreError):
    """A suppress buffer that shuts down when full is full."""


class UnknownTopicError(HeadraceError):
    """The topology neither reads nor writes that topic."""


class EnvironmentFailed(HeadraceError):
    """Something Headrace needs on the machine is missing or too old."""


class SparkEnded(EnvironmentFailed):
    """The SparkContext that the application was given has ended: to start again is of no use."""


class KafkaAway(EnvironmentFailed):
    """Kafka does not answer at this moment; it may do so again."""


class RecordsLost(EnvironmentFailed):
    """Kafka has deleted records before they were read."""


class DiskFull(EnvironmentFailed):
    """There is no room left for state."""
