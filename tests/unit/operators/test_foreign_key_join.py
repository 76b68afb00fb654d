from __future__ import annotations

import pytest

from headrace.dsl.foreign_key_join import subscription_serde
from headrace.errors import ConfigError
from headrace.operators.foreign_key_join import (
    Answer,
    CombinedKey,
    ForeignTableJoinOperator,
    ResponseJoinOperator,
    SubscriptionJoinOperator,
    SubscriptionReceiveOperator,
    SubscriptionSendOperator,
)
from headrace.record import Change
from headrace.serdes import Serdes
from headrace.serdes.forms.foreign_key import Instruction, Subscription
from headrace.serdes.hashing import murmur3_128
from headrace.topology.operations import (
    ForeignTableJoin,
    ResponseJoin,
    SubscriptionJoin,
    SubscriptionReceive,
    SubscriptionSend,
)
from headrace.topology.stores import StoreKind, StoreSpec
from headrace.topology.views import StoreView
from tests.unit.operators.join_wiring import Wiring, at

STRING = Serdes.string()
DELETE = Instruction.DELETE_KEY_NO_PROPAGATE
DELETE_AND_ANSWER = Instruction.DELETE_KEY_AND_PROPAGATE
ANSWER = Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE
ANSWER_IF_FOUND = Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE


def hash_of(value):
    return None if value is None else murmur3_128(value.encode())


def subscription(instruction, value="row", key="p", partition=3):
    return Subscription(hash_of(value), instruction, key, partition)


def rows(name):
    return StoreSpec(name, StoreKind.TIMESTAMPED_KEY_VALUE, STRING, STRING)


SUBSCRIPTIONS = StoreSpec("subscriptions", StoreKind.SUBSCRIPTION, Serdes.bytes(), subscription_serde(STRING))


class TestSend:
    """Rows are texts; the foreign key is the first letter, and "-" has none."""

    def sent(self, change, *, left, versioned=False):
        wiring = Wiring()
        wiring.task_partition = 3
        operation = SubscriptionSend(
            lambda key, value: None if value[0] == "-" else value[0], STRING, STRING, left, versioned
        )
        wiring.wire(SubscriptionSendOperator(operation))("p", change, at(7))
        assert all(timestamp == 7 for _, _, timestamp in wiring.forwarded)
        return [(key, value) for key, value, _ in wiring.taken()], wiring.dropped

    @pytest.mark.parametrize(
        ("new", "old", "sent"),
        [
            ("a1", None, [("a", ANSWER_IF_FOUND)]),
            ("a2", "a1", [("a", ANSWER_IF_FOUND)]),
            ("b1", "a1", [("a", DELETE), ("b", ANSWER)]),
            (None, "a1", [("a", DELETE_AND_ANSWER)]),
            (None, "-", []),
            (None, None, []),
            ("a1", "-", [("a", ANSWER_IF_FOUND)]),
        ],
    )
    def test_inner(self, new, old, sent):
        expected = [(key, subscription(instruction, new)) for key, instruction in sent]
        assert self.sent(Change(new, old), left=False) == (expected, [])

    def test_inner_drops_a_row_without_a_foreign_key_and_unsubscribes_it(self):
        expected = [("a", subscription(DELETE_AND_ANSWER, "-1"))]
        assert self.sent(Change("-1", "a1"), left=False) == (expected, ["null foreign key"])
        assert self.sent(Change("-1", None), left=False) == ([], ["null foreign key"])

    @pytest.mark.parametrize(
        ("new", "old", "sent"),
        [
            ("a1", None, [("a", ANSWER)]),
            ("a2", "a1", [("a", ANSWER)]),
            ("b1", "a1", [("a", DELETE), ("b", ANSWER)]),
            ("-1", "a1", [("a", DELETE), (None, ANSWER)]),
            ("-1", None, [(None, ANSWER)]),
            (None, "a1", [("a", DELETE), (None, ANSWER)]),
            (None, "-1", [(None, ANSWER)]),
            (None, None, []),
        ],
    )
    def test_left(self, new, old, sent):
        expected = [(key, subscription(instruction, new)) for key, instruction in sent]
        assert self.sent(Change(new, old), left=True) == (expected, [])

    def test_late_updates_of_versioned_tables_are_dropped(self):
        sent, dropped = self.sent(Change("a1", None, is_latest=False), left=False, versioned=True)
        assert sent == []
        assert len(dropped) == 1

    def test_serdes_are_needed(self):
        with pytest.raises(ConfigError, match="foreign key serde"):
            SubscriptionSendOperator(SubscriptionSend(lambda k, v: v, None, STRING, False))


class TestReceive:
    def start(self):
        wiring = Wiring(SUBSCRIPTIONS)
        operation = SubscriptionReceive("subscriptions", STRING, STRING)
        return wiring, wiring.wire(SubscriptionReceiveOperator(operation))

    def test_a_subscription_is_kept_until_it_is_deleted(self):
        wiring, receive = self.start()
        receive("a", subscription(ANSWER), at(4))
        assert wiring.taken() == [(CombinedKey("a", "p"), subscription(ANSWER), 4)]
        assert [value for _, value in wiring.store("subscriptions").all()] == [(subscription(ANSWER), 4)]
        receive("a", subscription(DELETE), at(5))
        assert wiring.taken() == [(CombinedKey("a", "p"), subscription(DELETE), 5)]
        assert list(wiring.store("subscriptions").all()) == []

    def test_without_a_foreign_key_only_a_left_joins_subscription_passes_and_is_not_kept(self):
        wiring, receive = self.start()
        receive(None, subscription(ANSWER), at(4))
        receive(None, subscription(ANSWER_IF_FOUND), at(4))
        assert wiring.taken() == [(CombinedKey(None, "p"), subscription(ANSWER), 4)]
        assert wiring.dropped == ["null foreign key"]
        assert list(wiring.store("subscriptions").all()) == []


class TestAnswer:
    @pytest.mark.parametrize(
        ("instruction", "found", "answered"),
        [
            (ANSWER, "x", [("p", "x", 20)]),
            (ANSWER, None, [("p", None, 4)]),
            (ANSWER_IF_FOUND, "x", [("p", "x", 20)]),
            (ANSWER_IF_FOUND, None, []),
            (DELETE_AND_ANSWER, "x", [("p", None, 20)]),
            (DELETE_AND_ANSWER, None, [("p", None, 4)]),
            (DELETE, "x", []),
        ],
    )
    def test_a_subscription_is_answered_as_it_asks(self, instruction, found, answered):
        wiring = Wiring(rows("rights"))
        if found is not None:
            wiring.store("rights").put("a", found, 20, at(20))
        process = wiring.wire(SubscriptionJoinOperator(SubscriptionJoin(StoreView("rights"))))
        process(CombinedKey("a", "p"), subscription(instruction), at(4))
        assert wiring.taken() == [(key, Answer(hash_of("row"), row, 3), time) for key, row, time in answered]

    def start_foreign(self, versioned=False):
        wiring = Wiring(SUBSCRIPTIONS)
        receive = wiring.wire(SubscriptionReceiveOperator(SubscriptionReceive("subscriptions", STRING, STRING)))
        for foreign_key, primary_key in (("a", "q"), ("a", "p"), ("b", "r"), ("aa", "s")):
            receive(foreign_key, subscription(ANSWER, key=primary_key), at(0))
        wiring.taken()
        operation = ForeignTableJoin("subscriptions", STRING, STRING, versioned)
        return wiring, wiring.wire(ForeignTableJoinOperator(operation))

    def test_a_changed_foreign_row_answers_its_subscribers_in_key_order(self):
        wiring, process = self.start_foreign()
        process("a", Change("x", None), at(8))
        process("a", Change(None, "x"), at(9))
        process(None, Change("x", None), at(9))
        answer = Answer(hash_of("row"), "x", 3)
        gone = Answer(hash_of("row"), None, 3)
        assert wiring.taken() == [("p", answer, 8), ("q", answer, 8), ("p", gone, 9), ("q", gone, 9)]
        assert wiring.dropped == ["null key"]

    def test_late_updates_of_versioned_tables_are_dropped(self):
        wiring, process = self.start_foreign(versioned=True)
        process("a", Change("x", None, is_latest=False), at(8))
        assert wiring.taken() == []
        assert len(wiring.dropped) == 1


class TestResponse:
    def joined(self, current, answer, *, left=False):
        wiring = Wiring(rows("lefts"))
        if current is not None:
            wiring.store("lefts").put("p", current, 2, at(2))
        operation = ResponseJoin(StoreView("lefts"), STRING, lambda key, a, b: f"{key}:{a}+{b}", left)
        wiring.wire(ResponseJoinOperator(operation))("p", answer, at(9))
        return wiring.taken(), len(wiring.dropped)

    @pytest.mark.parametrize(
        ("current", "foreign", "left", "result"),
        [
            ("row", "x", False, "p:row+x"),
            ("row", None, False, None),
            ("row", None, True, "p:row+None"),
            (None, None, True, None),
            (None, None, False, None),
        ],
    )
    def test_an_answer_to_the_current_row_joins_it(self, current, foreign, left, result):
        assert self.joined(current, Answer(hash_of(current), foreign, 0), left=left) == ([("p", result, 9)], 0)

    @pytest.mark.parametrize(("current", "asked"), [("new", "row"), (None, "row"), ("row", None)])
    def test_an_answer_to_another_row_is_dropped(self, current, asked):
        assert self.joined(current, Answer(hash_of(asked), "x", 0)) == ([], 1)
