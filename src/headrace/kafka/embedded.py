"""EmbeddedKafka: the real Kafka broker, brought along, for all processes of the machine that name the same directory.

The broker belongs to a keeper process (see keeper.py), not to the process that happened to come first. Using it is a
shared lock on a file; there is no list of users that a killed process could leave wrong.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import headrace
from headrace.errors import EnvironmentFailed
from headrace.kafka.broker import check_disk
from headrace.kafka.home import Endpoint, Given, Home
from headrace.kafka.jars import BROKER, Progress, resolve
from headrace.kafka.java import find_java
from headrace.kafka.locks import Lock, owned
from headrace.private_files import PRIVATE_UMASK, make_private_directory, open_private

DEFAULT_PORT = 9092

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.03
_START_SECONDS = 180.0
_STOP_SECONDS = 30.0
_SPAWNS = 5


def default_state_dir() -> Path:
    """Where state is kept when nobody says where: headrace in the user's directory for state."""
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "headrace"


class EmbeddedKafka:
    """A Kafka broker on this machine; it runs as long as a process uses it, and its data stays.

    Processes that name the same state directory share one broker. With `port` taken, it listens on a free one.
    `settings` are Kafka's, and apply if this process starts the broker. Where they make clients log in, `login` has
    librdkafka's settings for that.

        with EmbeddedKafka(Path("state")) as kafka:
            producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    """

    def __init__(
        self,
        state_dir: Path | None = None,
        port: int = DEFAULT_PORT,
        progress: Progress | None = None,
        *,
        settings: Mapping[str, object] | None = None,
        login: Mapping[str, str] | None = None,
    ) -> None:
        self.state_dir = (state_dir or default_state_dir()).expanduser().absolute()
        self._home = Home.of(self.state_dir)
        self._port = port
        self._progress = progress
        self._given = Given({name: str(value) for name, value in (settings or {}).items()}, login or {})
        self._users: Lock | None = None
        self._owner = 0
        self._endpoint: Endpoint | None = None
        self._watcher: threading.Thread | None = None
        self.failure: str | None = None
        """Why the broker ended for good while this process used it."""

    @property
    def bootstrap_servers(self) -> str:
        """The address for Kafka's clients."""
        if self._endpoint is None:
            raise EnvironmentFailed("The embedded Kafka is not started: call start(), or use it in a with statement.")
        return self._endpoint.bootstrap_servers

    @property
    def log_file(self) -> Path:
        """The broker's log."""
        return self._home.log

    @property
    def endpoint(self) -> Endpoint | None:
        """Where the broker answers at this moment and the processes behind it, None if there is none."""
        return self._home.read_endpoint()

    def start(self) -> EmbeddedKafka:
        """Returns when the broker answers, one that runs already or a new one."""
        if self._users is not None and self._owner == os.getpid():
            return self
        resolve(BROKER, self._progress)
        _make_directory(self._home.directory)
        users = Lock.on(self._home.users_lock)
        try:
            users.share()  # waits while a keeper that has no users left ends
            self._endpoint = self._await_endpoint()
        except BaseException:
            users.close()
            raise
        self._users = users
        self._owner = os.getpid()
        # A process made by fork is not a user of its own, and must not keep the broker alive.
        os.register_at_fork(after_in_child=users.close)
        self._watcher = threading.Thread(target=self._watch, args=(users,), name="embedded-kafka", daemon=True)
        self._watcher.start()
        return self

    def close(self) -> None:
        """Lets go of the broker. Returns when it has ended, if nobody else uses it."""
        users, self._users = self._users, None
        if users is None or os.getpid() != self._owner:
            return
        self._endpoint = None
        nobody_else = users.try_own() or not users.try_share()
        users.close()
        if nobody_else:
            self._await_end()

    def __enter__(self) -> EmbeddedKafka:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- the keeper --------------------------------------------------------------------------------------------

    def _await_endpoint(self) -> Endpoint:
        """The endpoint of a broker that answers. The caller is a user already, so no keeper ends meanwhile."""
        deadline = time.monotonic() + _START_SECONDS
        spawned = 0
        while time.monotonic() < deadline:
            with owned(self._home.start_lock):
                keeper_lock = Lock.on(self._home.keeper_lock)
                try:
                    if keeper_lock.try_own():
                        if spawned and (failure := self._home.read_failure()) is not None:
                            raise EnvironmentFailed(failure)
                        if spawned == _SPAWNS:
                            break
                        self._spawn(keeper_lock)
                        spawned += 1
                finally:
                    keeper_lock.close()
                endpoint = self._home.read_endpoint()
            if endpoint is not None and endpoint.ready:
                return endpoint
            time.sleep(_POLL_SECONDS)
        raise EnvironmentFailed(
            f"The embedded Kafka did not start. What happened is in {self._home.keeper_log} and {self._home.log}."
        )

    def _spawn(self, keeper_lock: Lock) -> None:
        """Starts a keeper and hands the lock to it."""
        check_disk(self._home)
        # An endpoint without a keeper is that of a keeper that was killed: others may use its port.
        killed = self._home.read_endpoint()
        port = self._port if killed is None else killed.port
        self._home.forget_endpoint()
        self._home.failure.unlink(missing_ok=True)
        self._home.write_given(self._given)
        command = [sys.executable, "-m", "headrace.kafka.keeper", str(self.state_dir)]
        command += ["--java", str(find_java().path), "--port", str(port), "--lock-fd", str(keeper_lock.fd)]
        command += ["--same-port"] if killed is not None else []
        with open_private(self._home.keeper_log, "wb") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._home.directory,
                env={**os.environ, "PYTHONPATH": _python_path()},
                start_new_session=True,
                pass_fds=(keeper_lock.fd,),
                umask=PRIVATE_UMASK,
            )
        threading.Thread(target=process.wait, daemon=True).start()  # so that its end leaves no zombie

    def _watch(self, users: Lock) -> None:
        """Sees to it that there is a keeper again if it is killed while this process uses the broker."""
        while True:
            keeper_lock = Lock.on(self._home.keeper_lock)
            try:
                keeper_lock.share()  # returns when the keeper is gone
            finally:
                keeper_lock.close()
            if self._users is not users:
                return
            try:
                self.failure = self._home.read_failure()
                if self.failure is not None:
                    check_disk(self._home)  # a full disk keeps no words
                else:
                    endpoint = self._await_endpoint()
            except (EnvironmentFailed, OSError) as failure:
                self.failure = str(failure)
            if self.failure is not None:
                _log.error("The embedded Kafka has ended: %s", self.failure)
                return
            if self._endpoint is not None and endpoint.port != self._endpoint.port:
                _log.error(
                    "The embedded Kafka had to move from port %d to %d: start this program again.",
                    self._endpoint.port,
                    endpoint.port,
                )

    def _await_end(self) -> None:
        """Waits for the keeper's end, unless a new user comes first."""
        assert self._watcher is not None
        deadline = time.monotonic() + _STOP_SECONDS
        while self._watcher.is_alive() and time.monotonic() < deadline:
            self._watcher.join(0.2)
            users = Lock.on(self._home.users_lock)
            came = users.try_share()  # the keeper, which was first in the queue, does not have it
            users.close()
            if came:
                return


def _make_directory(directory: Path) -> None:
    try:
        make_private_directory(directory)
    except OSError as error:
        raise EnvironmentFailed(
            f"The directory {directory} for the embedded Kafka cannot be made: {error.strerror}. "
            "Choose another place with --state-dir."
        ) from None


def _python_path() -> str:
    package = str(Path(headrace.__file__).parents[1])
    given = [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    return os.pathsep.join([package, *given])
