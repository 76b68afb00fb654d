"""What made a batch fail: the error itself, dug out of what Spark wraps around it."""

from __future__ import annotations

import re
from pathlib import Path

from headrace import errors
from headrace.errors import HeadraceError, KafkaAway, StreamsError, WorkerLost
from headrace.full_disk import causes_of, disk_full
from headrace.kafka.absence import is_away

_OURS = re.compile(r"^\s*(?:pyspark\.\S*: )?headrace\.[\w.]*?(?P<kind>[A-Z]\w+): (?P<message>.+)$")
_PYTHONS = re.compile(r"^(?P<kind>[A-Za-z_][\w.]*(?:Error|Exception|Exit|Failed)): (?P<message>.+)$")
_JAVAS = re.compile(r"^(?:Caused by: )?(?:[a-z]\w*\.)+(?P<kind>[A-Z]\w*(?:Error|Exception)): (?P<message>.+)$")
_TRACE = re.compile(r"^\s*(at |File \"|Traceback |\.\.\. \d+ more|Caused by: |SQLSTATE: |=== )|^\s*$|^\s+\S*\^+")
_SQLSTATE = re.compile(r"(\s+SQLSTATE: \w+)+\s*$")
_MOST_LINES = 6

_WRAPPERS = ("An exception was raised by the Python Proxy", "An exception was thrown from the Python worker")
_LOST_WORKER = re.compile(
    r"Python worker exited unexpectedly|Python worker failed to connect back|ExecutorLostFailure"
    r"|Executor heartbeat timed out|executor \S+ exited|Executor \S+ lost"
    r"|FetchFailed|has failed the maximum allowable number of times"
)


def cause_of(error: BaseException, state_dir: Path) -> Exception:
    """The error that a user can do something about, with what Spark made of it as its cause."""
    for seen in causes_of(error):
        if isinstance(seen, HeadraceError):
            return seen
    text = "\n".join(str(seen) for seen in causes_of(error))
    told = _last(text.splitlines(), _OURS)
    if told is not None:
        found: Exception = _remade(*told)
    elif any(is_away(seen) for seen in causes_of(error)):
        found = KafkaAway("Kafka does not answer")
    elif (full := disk_full(error, state_dir)) is not None:
        return full
    elif is_lost_worker(error):
        found = WorkerLost(
            "A process that ran a part of the batch died, and died again when the batch was tried again. It may have "
            "been killed for want of memory, or a function of the topology brings Python down."
        )
    else:
        return error if isinstance(error, Exception) else StreamsError(str(error))
    found.__cause__ = error
    return found


def is_lost_worker(error: BaseException) -> bool:
    """Whether a worker process died, and not an error of a function or of a record ended the batch."""
    text = str(error)
    return _LOST_WORKER.search(text) is not None and _last(text.splitlines(), _OURS) is None


def explain(error: BaseException) -> str:
    """The message of an error; of one that went through Spark, that of its cause."""
    for seen in causes_of(error):
        if isinstance(seen, HeadraceError):
            return str(seen)
    lines = str(error).splitlines()
    if (ours := _last(lines, _OURS)) is not None:
        return ours[1]
    for pattern in (_PYTHONS, _JAVAS):
        if (found := _last(lines, pattern)) is not None:
            return f"{found[0].rpartition('.')[2]}: {found[1]}"
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


def _remade(kind: str, message: str) -> HeadraceError:
    """An error that was raised in a worker, of its own kind again."""
    made = getattr(errors, kind, None)
    if isinstance(made, type) and issubclass(made, HeadraceError):
        return made(message)
    return StreamsError(message)


def _last(lines: list[str], pattern: re.Pattern[str]) -> tuple[str, str] | None:
    """What the last line says that names an error: its kind and its message, with the lines that follow it."""
    for number in range(len(lines) - 1, -1, -1):
        matched = pattern.match(lines[number])
        if matched is None or matched["message"].startswith(_WRAPPERS):
            continue
        told = [_SQLSTATE.sub("", matched["message"])]
        for line in lines[number + 1 : number + _MOST_LINES]:
            if _TRACE.match(line):
                break
            told.append(line)
        return matched["kind"], "\n".join(told)
    return None
