"""Where an application keeps its state on this machine, and whether it runs here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.config import StreamsConfig
from headrace.errors import EnvironmentFailed, StreamsError
from headrace.kafka.embedded import default_state_dir
from headrace.kafka.locks import Lock
from headrace.private_files import make_private_directory


def state_directory(config: StreamsConfig) -> Path:
    """Where the application keeps its state."""
    return (default_state_dir() if config.state_dir is None else Path(config.state_dir)).expanduser().absolute()


def lock_of(state_dir: Path, application_id: str) -> Path:
    """The file that the processes which run the application share, and that the one which resets it owns."""
    return state_dir / "locks" / f"{application_id}.lock"


def serving_directory(state_dir: Path, application_id: str) -> Path:
    """The directory of the copies that instances answer from."""
    return state_dir / "serving" / application_id


def mark_running(state_dir: Path, application_id: str) -> Lock:
    """Marks the application as running until the lock is closed. Others may run it too."""
    lock = _lock(state_dir, application_id)
    if not lock.try_share():
        lock.close()
        raise StreamsError(f"The application {application_id} is being reset at this moment; start it afterwards.")
    return lock


@contextmanager
def running(state_dir: Path, application_id: str) -> Iterator[None]:
    """Marks the application as running while the block runs."""
    lock = mark_running(state_dir, application_id)
    try:
        yield
    finally:
        lock.close()


@contextmanager
def at_rest(state_dir: Path, application_id: str) -> Iterator[None]:
    """Sees to it that the application does not run while the block runs; StreamsError if it does."""
    lock = _lock(state_dir, application_id)
    try:
        if not lock.try_own():
            raise StreamsError(f"The application {application_id} is running: stop it first. Nothing was touched.")
        yield
    finally:
        lock.close()


def _lock(state_dir: Path, application_id: str) -> Lock:
    path = lock_of(state_dir, application_id)
    try:
        make_private_directory(path.parent)
        return Lock.on(path)
    except OSError as error:
        raise EnvironmentFailed(
            f"The directory {path.parent} cannot be used: {error.strerror}. Choose another place with --state-dir."
        ) from None
