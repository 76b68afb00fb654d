"""The keeper of the embedded Kafka: a process of its own that starts the broker, restarts it and ends it.

    python -m headrace.kafka.keeper STATE_DIR --java JAVA --port PORT [--same-port] --lock-fd FD

It outlives the process that made it, and ends when no process uses the broker any more: each holds a shared lock on
users.lock, so the keeper gets that lock for itself when the last one is gone, however it went. The broker ends with
its keeper (by the kernel where it can do that; elsewhere the next keeper sees to it).
"""

from __future__ import annotations

import argparse
import logging
import os
import queue
import signal
import sys
import threading
import time
from pathlib import Path

from headrace.errors import EnvironmentFailed
from headrace.kafka.broker import (
    Broker,
    BrokerDied,
    check_disk,
    end_orphan,
    explain_death,
    free_port,
    is_free,
    prepare_data,
)
from headrace.kafka.home import Endpoint, Home
from headrace.kafka.jars import BROKER, resolve
from headrace.kafka.locks import Lock

_log = logging.getLogger("headrace.kafka.keeper")

_START_ATTEMPTS = 3
_SHORT_LIFE_SECONDS = 30.0
_PORT_PATIENCE_SECONDS = 5.0


class Keeper:
    """Keeps one broker running as long as it has users."""

    def __init__(
        self,
        home: Home,
        java: Path,
        port: int,
        lock: Lock,
        *,
        port_is_known: bool = False,
    ) -> None:
        self._home = home
        self._given = home.read_given()
        self._java = java
        self._port = port
        self._port_is_known = port_is_known
        self._lock = lock
        self._users = Lock.on(home.users_lock)
        self._leaving = threading.Event()
        self._wake_up: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        """The exit code of a broker that ended, None when it is time to leave."""

    def run(self) -> None:
        """Keeps the broker until its last user is gone."""
        threading.Thread(target=self._await_last_user, daemon=True).start()
        try:
            self._keep()
        except (EnvironmentFailed, OSError) as failure:
            _log.error("giving up: %s", failure)
            self._home.write_failure(_told(failure))
        finally:
            self._home.forget_endpoint()
            # Who waits to use the broker looks for a keeper as soon as the users' lock is free.
            self._lock.close()
            self._users.close()

    def leave(self) -> None:
        """Ends the broker and the keeper, whoever uses it."""
        self._leaving.set()
        self._wake_up.put(None)

    def _await_last_user(self) -> None:
        self._users.own()
        _log.info("nobody uses the broker any more")
        self.leave()

    def _keep(self) -> None:
        jars = resolve(BROKER)
        lock = Lock.on(self._home.broker_lock)
        end_orphan(self._home, lock)
        prepare_data(self._home, self._java, jars)
        self._choose_port()
        short_lives = 0
        while (broker := self._start(jars, lock)) is not None:
            born = time.monotonic()
            exit_code = self._wake_up.get()
            if exit_code is None:
                _log.info("stopping the broker")
                self._home.forget_endpoint()
                broker.stop()
                return
            _log.warning("the broker ended (exit code %d), starting it again", exit_code)
            self._home.write_endpoint(Endpoint(self._port, os.getpid()))
            # One that is killed is no worse for it; one that ends by itself again and again will go on to do so.
            failed = exit_code >= 0 and time.monotonic() - born < _SHORT_LIFE_SECONDS
            short_lives = short_lives + 1 if failed else 0
            if short_lives >= _START_ATTEMPTS:
                raise EnvironmentFailed(explain_death(self._home, exit_code))
            lock = self._broker_lock()

    def _start(self, jars: list[Path], lock: Lock) -> Broker | None:
        """A broker that answers, None if it is time to leave."""
        for attempt in range(1, _START_ATTEMPTS + 1):
            if self._leaving.is_set():
                return None
            check_disk(self._home)
            self._home.write_endpoint(Endpoint(self._port, os.getpid()))
            broker = Broker(self._home, self._java, jars, self._port, lock, self._given)
            _log.info("broker %d starts on port %d", broker.pid, self._port)
            try:
                ready = broker.await_ready(self._leaving.is_set)
            except BrokerDied as death:
                _log.warning("%s", death)
                if attempt == _START_ATTEMPTS or not death.by_chance:
                    raise
                if death.port_taken:
                    self._choose_port()
                lock = self._broker_lock()
                continue
            if not ready:
                broker.stop()
                return None
            self._port_is_known = True
            self._home.write_endpoint(Endpoint(self._port, os.getpid(), broker.pid, ready=True))
            _log.info("broker %d is ready", broker.pid)
            threading.Thread(target=self._await_death, args=(broker,), daemon=True).start()
            return broker
        return None

    def _await_death(self, broker: Broker) -> None:
        self._wake_up.put(broker.wait())

    def _broker_lock(self) -> Lock:
        """The lock for the next broker: free, as the last one is gone."""
        lock = Lock.on(self._home.broker_lock)
        end_orphan(self._home, lock)
        return lock

    def _choose_port(self) -> None:
        """Takes another port if this one is not free. One that users know already is worth some patience."""
        if self._port == 0:
            self._port = free_port()
        deadline = time.monotonic() + (_PORT_PATIENCE_SECONDS if self._port_is_known else 0)
        while not is_free(self._port):
            if time.monotonic() >= deadline:
                taken, self._port = self._port, free_port()
                _log.info("port %d is taken, using %d", taken, self._port)
                return
            time.sleep(0.1)


def _told(failure: Exception) -> str:
    if isinstance(failure, EnvironmentFailed):
        return str(failure)
    return f"The embedded Kafka could not be started: {failure}."


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m headrace.kafka.keeper", description="Keep an embedded Kafka.")
    parser.add_argument("state_dir", type=Path)
    parser.add_argument("--java", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--same-port", action="store_true", help="users of a keeper that was killed know the port")
    parser.add_argument("--lock-fd", type=int, required=True, help="the keeper's lock, held by who starts it")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    os.set_inheritable(options.lock_fd, False)
    keeper = Keeper(
        Home.of(options.state_dir),
        options.java,
        options.port,
        Lock(options.lock_fd),
        port_is_known=options.same_port,
    )
    signal.signal(signal.SIGTERM, lambda *_: keeper.leave())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    keeper.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
