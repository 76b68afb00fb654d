from __future__ import annotations

import pytest

from headrace.operators.stream import (
    BranchOperator,
    FilterOperator,
    FlatMapOperator,
    FlatMapValuesOperator,
    ForeachOperator,
    MapOperator,
    MapValuesOperator,
    PassThroughOperator,
    PeekOperator,
    PrintOperator,
    SelectKeyOperator,
    ToStreamOperator,
)
from headrace.record import Change
from headrace.topology.operations import (
    Branch,
    Filter,
    FlatMap,
    FlatMapValues,
    Foreach,
    Map,
    MapValues,
    PassThrough,
    Peek,
    Print,
    SelectKey,
    ToStream,
)
from headrace.windowed import Window, Windowed
from tests.unit.operators.running import Running

HEADERS = (("h", b"1"),)


def run(operator, key, value):
    return Running().start(operator).process(key, value, 7)


@pytest.mark.parametrize("answer", [True, 1, "yes", [0]])
def test_a_filter_keeps_what_is_true_to_python(answer):
    assert run(FilterOperator(Filter(lambda k, v: answer)), "k", "v") == [("k", "v", 7)]
    assert run(FilterOperator(Filter(lambda k, v: answer, negate=True)), "k", "v") == []


@pytest.mark.parametrize("answer", [False, 0, "", None])
def test_a_filter_drops_what_is_false_to_python(answer):
    assert run(FilterOperator(Filter(lambda k, v: answer)), "k", "v") == []
    assert run(FilterOperator(Filter(lambda k, v: answer, negate=True)), "k", "v") == [("k", "v", 7)]


def test_mappers_change_key_and_value_and_keep_time_and_headers():
    running = Running().start(MapOperator(Map(lambda k, v: (v, k))))
    assert running.process("k", "v", 7, headers=HEADERS) == [("v", "k", 7)]
    assert running.headers == [HEADERS]
    assert run(SelectKeyOperator(SelectKey(lambda k, v: k + v)), "k", "v") == [("kv", "v", 7)]
    assert run(MapValuesOperator(MapValues(lambda k, v: k + v)), "k", "v") == [("k", "kv", 7)]


def test_flat_mappers_forward_all_in_order():
    pairs = FlatMapOperator(FlatMap(lambda k, v: ((k + c, c) for c in v)))
    assert run(pairs, "k", "ab") == [("ka", "a", 7), ("kb", "b", 7)]
    assert run(FlatMapValuesOperator(FlatMapValues(lambda k, v: v.split())), "k", "a b") == [
        ("k", "a", 7),
        ("k", "b", 7),
    ]
    assert run(FlatMapValuesOperator(FlatMapValues(lambda k, v: ())), "k", "a b") == []


@pytest.mark.parametrize("result", [None, 1, ("k",), ("k", "v", "w")])
def test_a_mapper_that_gives_no_pair_is_named(result):
    def wrong(k, v):
        return result

    with pytest.raises(TypeError, match=r"wrong must return pairs \(key, value\), not"):
        run(MapOperator(Map(wrong)), "k", "v")
    with pytest.raises(TypeError, match=r"wrong_all must return pairs"):

        def wrong_all(k, v):
            return [result]

        run(FlatMapOperator(FlatMap(wrong_all)), "k", "v")


def test_an_error_of_a_mapper_stays_as_it_is():
    with pytest.raises(TypeError, match="unsupported operand"):
        run(MapOperator(Map(lambda k, v: (k, v + None))), "k", 1)


def test_peek_passes_on_and_foreach_ends():
    seen = []
    assert run(PeekOperator(Peek(lambda k, v: seen.append((k, v)))), "k", "v") == [("k", "v", 7)]
    assert run(ForeachOperator(Foreach(lambda k, v: seen.append((k, v)))), "k", "v") == []
    assert seen == [("k", "v"), ("k", "v")]


def test_print_has_the_form_of_kafka_streams(capsys):
    operator = PrintOperator(Print("label"))
    assert run(operator, Windowed("k", Window(0, 10)), 1) == []
    assert capsys.readouterr().out == "[label]: [k@0/10], 1\n"


def test_pass_through():
    assert run(PassThroughOperator(PassThrough()), "k", None) == [("k", None, 7)]


def test_a_branch_sends_to_the_first_that_fits():
    predicates = (lambda k, v: v > 10, lambda k, v: v > 5)
    running = Running().start(BranchOperator(Branch(predicates, ("big", "middle"), "rest")))
    for value in (11, 6, 1):
        running.process("k", value)
    assert running.sent_to == [("big", "k", 11), ("middle", "k", 6), ("rest", "k", 1)]


def test_a_branch_without_default_loses_the_rest():
    running = Running().start(BranchOperator(Branch((lambda k, v: False,), ("never",), None)))
    assert running.process("k", 1) == []
    assert running.sent_to == []


def test_to_stream_forwards_the_new_value():
    assert run(ToStreamOperator(ToStream()), "k", Change("new", "old")) == [("k", "new", 7)]
    assert run(ToStreamOperator(ToStream()), "k", Change(None, "old")) == [("k", None, 7)]
