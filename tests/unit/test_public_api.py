"""The names that users import."""

import headrace

API = [
    "Branched",
    "BufferConfig",
    "Consumed",
    "EmitStrategy",
    "FixedKeyProcessor",
    "GlobalKTable",
    "Grouped",
    "JoinWindows",
    "Joined",
    "KStream",
    "KTable",
    "Materialized",
    "Processor",
    "ProcessorContext",
    "Produced",
    "PunctuationType",
    "Record",
    "Repartitioned",
    "Serde",
    "Serdes",
    "SessionWindows",
    "SlidingWindows",
    "Stores",
    "StreamJoined",
    "StreamsBuilder",
    "StreamsConfig",
    "Suppressed",
    "TimeWindows",
    "Topology",
    "UnlimitedWindows",
    "Window",
    "Windowed",
]


def test_every_documented_name_is_there():
    assert set(API) <= set(headrace.__all__)


def test_every_public_name_says_what_it_is():
    assert [name for name in headrace.__all__ if not getattr(headrace, name).__doc__] == []


def test_all_names_what_exists_once():
    assert len(set(headrace.__all__)) == len(headrace.__all__)
    assert all(hasattr(headrace, name) for name in headrace.__all__)
