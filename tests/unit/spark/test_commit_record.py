"""What a commit record holds, and which starts it stops."""

from __future__ import annotations

from uuid import uuid4

import msgspec
import pytest
from msgspec.structs import replace

from headrace.errors import EnvironmentFailed, TopologyError
from headrace.spark.commit_record import NEVER_RUN, CommitRecord, TaskState, check_topology, unpack_commit
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
    assert unpack_commit(RECORD.pack(), "app-commits") == RECORD


def test_the_record_of_thousands_of_tasks_is_one_that_kafka_takes() -> None:
    state = RECORD.tasks["0_0"]
    tasks = {f"{group}_{task}": replace(state, version=uuid4().hex[:16]) for group in range(5) for task in range(2_000)}
    record = replace(RECORD, tasks=tasks)
    packed = record.pack()
    assert len(packed) < 1_000_000 < len(msgspec.json.encode(record))
    assert unpack_commit(packed, "app-commits") == record


@pytest.mark.parametrize("value", [b"{}", b"", b"x\x9cdamaged", b"null"])
def test_what_is_no_commit_record_is_refused(value: bytes) -> None:
    with pytest.raises(EnvironmentFailed, match="is not a commit record of this version"):
        unpack_commit(value, "app-commits")


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
