"""The rules that answers of instances must keep, as functions of what was recorded; none of them asks anybody."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from headrace.serdes.hashing import partition_for_key
from tests.histories.committed import Ends, Log, Partition
from tests.histories.history import ABSENT, OK, Place, Read, Span, Value

WRONG_VALUE = "wrong value"
"""What an answer has is not what its span had at one position between its own and what was committed by then."""
WRONG_ABSENCE = "wrong absence"
"""A key is said to be absent which had a value at all these positions."""
NEVER_COMMITTED = "never committed"
"""A value was committed at no position at all: of an aborted transaction, or of nowhere."""
BACK_IN_TIME = "back in time"
"""An answer is older than the position that was asked for."""
DISAGREEMENT = "disagreement"
"""Two answers at one position differ in an entry that did not change meanwhile."""
TOO_STALE = "too stale"
"""An answer lacks what was committed longer ago than it says, or than was asked for."""
AHEAD = "ahead of the log"
"""An answer's position is beyond what was committed."""
INCOMPLETE = "incomplete"
"""A partition is neither in an answer nor said to be missing."""
UNANSWERED = "unanswered"
"""A request got no answer, or one that no request may get."""
RULES = (
    WRONG_VALUE,
    WRONG_ABSENCE,
    NEVER_COMMITTED,
    BACK_IN_TIME,
    DISAGREEMENT,
    TOO_STALE,
    AHEAD,
    INCOMPLETE,
    UNANSWERED,
)

UNAVAILABLE = 503


class Violation(NamedTuple):
    """A rule that a read breaks."""

    rule: str
    detail: str
    read: Read

    def __str__(self) -> str:
        return f"{self.rule}: {self.detail}; {self.read}"


@dataclass(frozen=True)
class Committed:
    """What is known of the application from Kafka."""

    logs: Mapping[Partition, Log]
    ends: Ends
    partitions: int
    """How many each store has."""

    def partitions_of(self, span: Span) -> frozenset[int]:
        """The partitions that a read of the span asks."""
        if span.key is None:
            return frozenset(range(self.partitions))
        return frozenset({self.partition_of(span.key)})

    def partition_of(self, key: str) -> int:
        """Where a key is."""
        return partition_for_key(key.encode(), self.partitions)


class _Part(NamedTuple):
    """What an answer says of one partition."""

    read: Read
    partition: int
    entries: dict[Place, Value]
    position: int
    """The oldest that its content may be, as far as the answer tells."""
    high: int
    """The newest that its content can be."""

    @property
    def id(self) -> Partition:
        return self.read.store, self.partition


def check(
    reads: Sequence[Read], committed: Committed, must_be_answered: Callable[[Read], bool] = lambda read: False
) -> list[Violation]:
    """The violations of all rules. A request may go without an answer, or be told to come back, unless it must not."""
    found: list[Violation] = []
    parts: list[_Part] = []
    for read in reads:
        found += _check_status(read, must_be_answered)
        if read.is_answered:
            found += _check_partitions(read, committed)
            mine = list(_parts(read, committed))
            for part in mine:
                found += _check_part(part, committed)
            parts += mine
    return [*found, *_check_agreement(parts, committed)]


def by_rule(violations: Sequence[Violation]) -> dict[str, int]:
    """How many violations of each rule there are, also where there are none."""
    counted = Counter(violation.rule for violation in violations)
    return {rule: counted[rule] for rule in RULES}


def _check_status(read: Read, must_be_answered: Callable[[Read], bool]) -> Iterator[Violation]:
    if read.is_answered and not (read.missing and must_be_answered(read)):
        return
    if read.status not in (OK, None, UNAVAILABLE) or must_be_answered(read):
        missing = f", without {sorted(read.missing)}" if read.missing else ""
        yield Violation(UNANSWERED, "no answer" if read.status is None else f"status {read.status}{missing}", read)


def _check_partitions(read: Read, committed: Committed) -> Iterator[Violation]:
    """Every partition that was asked is in the answer, or said to be missing, and no entry comes from another."""
    if read.positions is None:
        return
    asked = committed.partitions_of(read.span)
    told = frozenset(read.positions)
    if told | read.missing != asked or told & read.missing:
        detail = f"asked {sorted(asked)}, told {sorted(told)}, missing {sorted(read.missing)}"
        yield Violation(INCOMPLETE, detail, read)
    for place in read.entries:
        if committed.partition_of(place.key) not in told or place not in read.span:
            yield Violation(WRONG_VALUE, f"{place} was not asked for, or is of a partition without a position", read)


def _parts(read: Read, committed: Committed) -> Iterator[_Part]:
    partitions = committed.partitions_of(read.span) if read.positions is None else read.positions
    for partition in sorted(partitions):
        entries = {
            place: value for place, value in read.entries.items() if committed.partition_of(place.key) == partition
        }
        position = 0 if read.positions is None else read.positions[partition]
        high = committed.ends.at_most((read.store, partition), read.received)
        yield _Part(read, partition, entries, position, high)


def _check_part(part: _Part, committed: Committed) -> Iterator[Violation]:
    read, log = part.read, committed.logs[part.id]
    if part.position > part.high:
        yield Violation(AHEAD, f"{part.id} at {part.position}, where {part.high} was committed", read)
        return
    demanded = read.min_position.get(part.partition, 0)
    if read.positions is not None and part.position < demanded:
        yield Violation(BACK_IN_TIME, f"{part.id} at {part.position}, {demanded} was asked for", read)
    yield from _check_age(read)
    fresh = _committed_before(part, committed.ends)
    if _is_explained(part, log, max(part.position, demanded, fresh)):
        return
    # Something is wrong: what is told is the first of the rules that it breaks.
    if strange := [place for place, value in part.entries.items() if not log.has_had(place, value)]:
        yield Violation(NEVER_COMMITTED, f"{strange}", read)
    elif not _is_explained(part, log, part.position):
        rule = WRONG_ABSENCE if read.status == ABSENT else WRONG_VALUE
        between = f"{part.id} from {part.position} to {part.high}"
        yield Violation(rule, f"{between}, where it had {log.state(read.covered, part.position)}", read)
    elif not _is_explained(part, log, max(part.position, demanded)):
        yield Violation(BACK_IN_TIME, f"{part.id}: its content is older than {demanded}, which was asked for", read)
    else:
        detail = f"{part.id} at {part.position}, {fresh} was committed {_age_ms(read)} ms before the request"
        yield Violation(TOO_STALE, detail, read)


def _check_age(read: Read) -> Iterator[Violation]:
    """An answer is no older than was asked for, as far as it tells its age."""
    if read.positions is None or read.max_staleness_ms is None:
        return
    if read.staleness_ms is None or read.staleness_ms > read.max_staleness_ms:
        yield Violation(TOO_STALE, f"{read.staleness_ms} ms old, {read.max_staleness_ms} was asked for", read)


def _age_ms(read: Read) -> int | None:
    """How old its content may be at most; None where neither the request nor the answer says."""
    ages = [age for age in (read.staleness_ms, read.max_staleness_ms) if age is not None]
    return min(ages) if ages else None


def _committed_before(part: _Part, ends: Ends) -> int:
    """What an answer has to have, by its age: all that was committed so long before the request."""
    age = _age_ms(part.read)
    return 0 if age is None else ends.at_least(part.id, part.read.sent - age / 1000)


def _is_explained(part: _Part, log: Log, low: int) -> bool:
    """Whether there is one position, from a given one to what was committed, that has just what the answer has."""
    return any(state == part.entries for state in log.states(part.read.covered, low, part.high))


def _check_agreement(parts: Sequence[_Part], committed: Committed) -> Iterator[Violation]:
    """Answers at one position differ only in what changed between it and the later of them."""
    known: dict[tuple[str, int, int, Place], list[tuple[Value | None, _Part]]] = {}
    for part in parts:
        if part.read.positions is None:
            continue
        for place, value in _told(part):
            answers = known.setdefault((*part.id, part.position, place), [])
            if value in (other for other, _ in answers):
                continue
            for _, other in answers:
                high = max(part.high, other.high)
                span = Span.of_key(place.key, place.start, place.start)
                if not committed.logs[part.id].changes(span, part.position, high):
                    yield Violation(
                        DISAGREEMENT, f"{place} at {part.position} of {part.id}: also {other.read}", part.read
                    )
            answers.append((value, part))


def _told(part: _Part) -> Iterator[tuple[Place, Value | None]]:
    """What an answer says of single entries, also that there is none."""
    yield from part.entries.items()
    span = part.read.span
    if part.read.status == ABSENT and span.key is not None:
        yield Place(span.key), None
