"""Kafka Streams for Python: streams and tables over Kafka, written in a few lines and tested without a broker."""

from headrace.config import StreamsConfig
from headrace.dsl.builder import StreamsBuilder
from headrace.dsl.grouped import KGroupedStream
from headrace.dsl.grouped_table import KGroupedTable
from headrace.dsl.options import (
    Branched,
    Consumed,
    Grouped,
    Joined,
    Materialized,
    Produced,
    Repartitioned,
    StreamJoined,
    TableJoined,
)
from headrace.dsl.stream import KStream
from headrace.dsl.suppressed import BufferConfig, Suppressed
from headrace.dsl.table import GlobalKTable, KTable
from headrace.errors import HeadraceError
from headrace.processor import (
    FixedKeyProcessor,
    FixedKeyProcessorContext,
    Processor,
    ProcessorContext,
    PunctuationType,
    Stores,
)
from headrace.record import Record, RecordMetadata, ValueAndTimestamp
from headrace.serdes import Serde, Serdes
from headrace.streams import REPLACE_THREAD, SHUTDOWN_APPLICATION, SHUTDOWN_CLIENT, Streams
from headrace.task.handlers import ErrorContext, HandlerResponse, LogAndContinue, LogAndFail, Response
from headrace.timestamps import (
    FailOnInvalidTimestamp,
    LogAndSkipOnInvalidTimestamp,
    UsePartitionTimeOnInvalidTimestamp,
    WallclockTimestampExtractor,
)
from headrace.topology import Topology, TopologyDescription
from headrace.windowed import Window, Windowed
from headrace.windows import (
    EmitStrategy,
    JoinWindows,
    SessionWindows,
    SlidingWindows,
    TimeWindows,
    UnlimitedWindows,
)

__all__ = [
    "REPLACE_THREAD",
    "SHUTDOWN_APPLICATION",
    "SHUTDOWN_CLIENT",
    "Branched",
    "BufferConfig",
    "Consumed",
    "EmitStrategy",
    "ErrorContext",
    "FailOnInvalidTimestamp",
    "FixedKeyProcessor",
    "FixedKeyProcessorContext",
    "GlobalKTable",
    "Grouped",
    "HandlerResponse",
    "HeadraceError",
    "JoinWindows",
    "Joined",
    "KGroupedStream",
    "KGroupedTable",
    "KStream",
    "KTable",
    "LogAndContinue",
    "LogAndFail",
    "LogAndSkipOnInvalidTimestamp",
    "Materialized",
    "Processor",
    "ProcessorContext",
    "Produced",
    "PunctuationType",
    "Record",
    "RecordMetadata",
    "Repartitioned",
    "Response",
    "Serde",
    "Serdes",
    "SessionWindows",
    "SlidingWindows",
    "Stores",
    "StreamJoined",
    "Streams",
    "StreamsBuilder",
    "StreamsConfig",
    "Suppressed",
    "TableJoined",
    "TimeWindows",
    "Topology",
    "TopologyDescription",
    "UnlimitedWindows",
    "UsePartitionTimeOnInvalidTimestamp",
    "ValueAndTimestamp",
    "WallclockTimestampExtractor",
    "Window",
    "Windowed",
]
