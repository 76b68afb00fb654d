"""What a commit record holds, and which starts it stops."""

from __future__ import annotations

import msgspec
import pytest

from headrace.errors import TopologyError
from headrace.spark.commit_record import NEVER_RUN, CommitRecord, TaskState, check_topology
from headrace.spark.fingerprint import Fingerprint

TOPOLOGY = Fingerprint({"counts": "timestamped key-value"}, {"counts": 0}, {"0": 2})
RECORD = CommitRecord(
    7,
    "token",
    {"orders": {0: 12, 1: 0}, "payments": {0: 3}},
    {"orders": "id-of-orders", "payments": "id-of-payments"},
    {"app-counts-changelog": "id-of-counts"},
    {
        "0_0": TaskState("7-a", {"stream_time": 5, "numbers": [1, None, "x"]}, {"counts": {"n": b"\x00\xff"}}, 1_000),
        "0_1": TaskState("3-b"),
    },
    TOPOLOGY,
)


def test_a_record_is_read_as_it_was_written() -> None:
    assert msgspec.json.decode(RECORD.pack(), type=CommitRecord) == RECORD


def test_what_a_task_does_not_remember_takes_no_room() -> None:
    packed = msgspec.json.decode(RECORD.pack())
    assert packed["tasks"]["0_1"] == {"version": "3-b"}
    assert msgspec.json.decode(msgspec.json.encode(NEVER_RUN), type=TaskState) == NEVER_RUN


def test_positions_are_by_partition() -> None:
    assert RECORD.positions() == {("orders", 0): 12, ("orders", 1): 0, ("payments", 0): 3}


def test_the_same_topology_goes_on() -> None:
    check_topology(RECORD, TOPOLOGY, "shop")


def test_another_topology_is_refused_with_all_that_differs() -> None:
    now = Fingerprint({"counts": "window"}, {"counts": 1}, {"0": 3})
    with pytest.raises(TopologyError) as raised:
        check_topology(RECORD, now, "shop")
    assert str(raised.value) == (
        "The state of shop belongs to another topology:\n"
        "  - store counts was a timestamped key-value store and is a window store now\n"
        "  - store counts was in sub-topology 0 and is in sub-topology 1 now\n"
        "  - sub-topology 0 had 2 tasks and has 3 now\n"
        "Nothing was touched. Go on with the old topology, give the new one another application_id, or start over "
        "from the beginning of the source topics with: headrace reset"
    )
