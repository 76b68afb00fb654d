"""The Processor API: processors, their contexts, schedules and stores."""

from headrace.processor.context import FixedKeyProcessorContext, ProcessorContext
from headrace.processor.processor import FixedKeyProcessor, Processor
from headrace.processor.punctuation import PunctuationType
from headrace.processor.stores import Stores

__all__ = [
    "FixedKeyProcessor",
    "FixedKeyProcessorContext",
    "Processor",
    "ProcessorContext",
    "PunctuationType",
    "Stores",
]
