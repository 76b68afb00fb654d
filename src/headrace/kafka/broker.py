"""The real Kafka broker as a child process: its settings, its start and its end."""

from __future__ import annotations

import base64
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

from headrace.errors import EnvironmentFailed
from headrace.java_properties import java_properties
from headrace.kafka import broker_launcher
from headrace.kafka.home import HOST, Given, Home
from headrace.kafka.locks import Lock

NODE_ID = 1
START_SECONDS = 90.0
STOP_SECONDS = 10.0
_MIN_FREE_BYTES = 64 * 1024 * 1024
_LOG_LINES = 15
_PORT_TAKEN = "Address already in use"


class BrokerDied(EnvironmentFailed):
    """The broker ended before it answered."""

    def __init__(self, message: str, exit_code: int, port_taken: bool) -> None:
        super().__init__(message)
        self.port_taken = port_taken
        self.by_chance = port_taken or exit_code < 0
        """Whether it may fare better the next time: it was killed, or somebody was faster to take the port."""


class Broker:
    """A running broker. `lock` was handed to it: it is free again when the process is gone."""

    def __init__(self, home: Home, java: Path, jars: list[Path], port: int, lock: Lock, given: Given) -> None:
        self.port = port
        self._home = home
        self._login = given.login
        settings = {**server_settings(home.data, port, free_port()), **given.settings}
        home.properties.write_text(java_properties(settings))
        home.logging.write_text(java_properties(_log_settings(home)))
        home.pid.write_text("")
        command = [str(java), "-Xms128m", "-Xmx512m", "-XX:+ExitOnOutOfMemoryError", "-Djava.awt.headless=true"]
        command += [f"-Dlog4j2.configurationFile={home.logging}", "-cp", _class_path(jars)]
        command += ["kafka.Kafka", str(home.properties)]
        launcher = [sys.executable, "-I", "-S", broker_launcher.__file__, str(os.getpid()), str(home.pid)]
        with home.output.open("wb") as output:
            self._process = subprocess.Popen(
                [*launcher, *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=home.directory,
                pass_fds=(lock.fd,),
            )
        lock.close()

    @property
    def pid(self) -> int:
        """The broker's process."""
        return self._process.pid

    def wait(self) -> int:
        """Waits for its end; the exit code, negative for a signal."""
        return self._process.wait()

    def await_ready(self, given_up: Callable[[], bool]) -> bool:
        """Waits until it answers; False if `given_up` said so first, BrokerDied if it ended instead."""
        deadline = time.monotonic() + START_SECONDS
        probe = _Probe(f"{HOST}:{self.port}", _facts(self._home.data).get("cluster.id", ""), self._login)
        while not probe.answers(0.25):
            if given_up():
                return False
            if self._process.poll() is not None:
                code = self._process.returncode
                raise BrokerDied(explain_death(self._home, code), code, _PORT_TAKEN in log_end(self._home))
            if time.monotonic() > deadline:
                self.stop()
                raise EnvironmentFailed(
                    f"The embedded Kafka did not answer within {START_SECONDS:.0f} seconds. "
                    f"Is the machine overloaded? The end of its log:\n{log_end(self._home)}"
                )
        return True

    def stop(self) -> None:
        """Ends it, orderly if it can."""
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class _Probe:
    """Asks whether the broker is there and takes work; not another cluster's, which was faster to take the port."""

    def __init__(self, bootstrap_servers: str, cluster_id: str, login: Mapping[str, str]) -> None:
        from confluent_kafka.admin import AdminClient

        self._cluster_id = cluster_id
        settings = {"log_level": 0, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 50}
        self._admin = AdminClient({**login, "bootstrap.servers": bootstrap_servers, **settings})

    def answers(self, timeout: float) -> bool:
        """Whether it is there now; a broker that may not lead partitions yet is not."""
        from confluent_kafka import KafkaException

        try:
            found = self._admin.list_topics(timeout=timeout)
            return bool(found.brokers) and found.cluster_id == self._cluster_id
        except KafkaException:
            return False


def end_orphan(home: Home, lock: Lock) -> None:
    """Takes the broker's lock, after it has ended a broker that has lost its keeper."""
    if lock.own_within(0.2):
        return
    for sign in (signal.SIGTERM, signal.SIGKILL):
        _signal_orphan(home, sign)
        if lock.own_within(STOP_SECONDS):
            return
    raise EnvironmentFailed(
        f"A Kafka broker that does not end uses the data in {home.data}. "
        f"End the process that holds {home.broker_lock} (lsof shows it), then try again."
    )


def _signal_orphan(home: Home, sign: signal.Signals) -> None:
    # While the lock is taken, the process that wrote this file is alive, so the number is still its own.
    try:
        pid = int(home.pid.read_text())
    except (OSError, ValueError):
        return
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, sign)


# --- data --------------------------------------------------------------------------------------------------------


def prepare_data(
    home: Home,
    java: Path,
    jars: list[Path],
    settings: Mapping[str, object] | None = None,
    cluster_id: str | None = None,
) -> None:
    """Formats the data directory if there is none; EnvironmentFailed if what is there cannot be used.

    A broker of a larger cluster has its own id among its `settings`, and the `cluster_id` of the others.
    """
    settings = settings or {}
    if home.data.exists():
        _check_data(home.data, settings.get("node.id", NODE_ID))
        return
    # Formatted beside its place and renamed when complete: a data directory that exists is whole.
    draft = home.directory / "data.new"
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()
    properties = home.directory / "format.properties"
    properties.write_text(java_properties({**server_settings(draft, 0, free_port()), **settings}))
    home.logging.write_text(java_properties(_log_settings(home)))
    command = [str(java), "-Xmx128m", "-XX:TieredStopAtLevel=1", f"-Dlog4j2.configurationFile={home.logging}"]
    command += ["-cp", _class_path(jars), "kafka.tools.StorageTool", "format"]
    command += ["--cluster-id", cluster_id or new_cluster_id(), "--config", str(properties)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=home.directory)
    properties.unlink()
    if done.returncode != 0:
        details = (done.stdout + done.stderr).strip()
        cause = known_cause(home, details) or f"The directory for the embedded Kafka's data, {draft}, was refused."
        raise EnvironmentFailed(f"{cause}\n{details}")
    draft.rename(home.data)


def check_disk(home: Home) -> None:
    """EnvironmentFailed if there is too little space to start a broker."""
    free = shutil.disk_usage(home.directory).free
    if free < _MIN_FREE_BYTES:
        raise EnvironmentFailed(
            f"The disk is full: the embedded Kafka in {home.directory} has {free // 1024**2} MB left. "
            "Free some space, or choose another place with --state-dir."
        )


def _check_data(data: Path, node_id: object) -> None:
    meta = _facts(data)
    if meta.get("node.id") != str(node_id) or "cluster.id" not in meta:
        raise EnvironmentFailed(
            f"{data} holds something that is not the data of an embedded Kafka. "
            "Choose another place with --state-dir, or remove that directory."
        )


def _facts(data: Path) -> dict[str, str]:
    """What Kafka notes about a data directory; nothing where there is none."""
    try:
        lines = (data / "meta.properties").read_text().splitlines()
    except OSError:
        return {}
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


def new_cluster_id() -> str:
    """An id for a cluster that does not exist yet."""
    while True:
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not cluster_id.startswith("-"):
            return cluster_id


# --- settings ----------------------------------------------------------------------------------------------------


def server_settings(data: Path, port: int, controller_port: int) -> dict[str, object]:
    """The broker's settings: one process, this machine only, small, quick to start, no record deleted by age."""
    return {
        "process.roles": "broker,controller",
        "node.id": NODE_ID,
        "controller.quorum.voters": f"{NODE_ID}@{HOST}:{controller_port}",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": data,
        # Topics are made on purpose, and records are kept: Kafka deletes by record timestamp, so with a retention
        # records with old timestamps would vanish within minutes.
        "auto.create.topics.enable": "false",
        "log.retention.ms": -1,
        "group.initial.rebalance.delay.ms": 0,
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 8,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 8,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "share.coordinator.state.topic.num.partitions": 1,
        # A broker that was killed may register again once its session is over.
        "broker.session.timeout.ms": 3000,
        "broker.heartbeat.interval.ms": 500,
        # Small segments let compaction keep the disk flat; small buffers keep the memory small.
        "offsets.topic.segment.bytes": 8 * 1024**2,
        "transaction.state.log.segment.bytes": 8 * 1024**2,
        "metadata.log.segment.bytes": 8 * 1024**2,
        "metadata.max.retention.bytes": 32 * 1024**2,
        "log.cleaner.dedupe.buffer.size": 16 * 1024**2,
        "num.network.threads": 2,
        "num.io.threads": 4,
    }


def _log_settings(home: Home) -> dict[str, object]:
    return {
        "appender.file.type": "RollingFile",
        "appender.file.name": "file",
        "appender.file.fileName": home.log,
        "appender.file.filePattern": f"{home.log}.%i",
        "appender.file.layout.type": "PatternLayout",
        "appender.file.layout.pattern": "%d %p %m (%c)%n",
        "appender.file.policies.type": "Policies",
        "appender.file.policies.size.type": "SizeBasedTriggeringPolicy",
        "appender.file.policies.size.size": "10MB",
        "appender.file.strategy.type": "DefaultRolloverStrategy",
        "appender.file.strategy.max": 2,
        "rootLogger.level": "INFO",
        "rootLogger.appenderRef.file.ref": "file",
    }


def _class_path(jars: list[Path]) -> str:
    return f"{jars[0].parent}/*"


# --- ports -------------------------------------------------------------------------------------------------------


def free_port() -> int:
    """A port of this machine that nobody uses."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def is_free(port: int) -> bool:
    """Whether nobody listens on the port."""
    with socket.socket() as probe:
        # As Java does, so that connections of a broker that has just ended do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


# --- what went wrong ---------------------------------------------------------------------------------------------


def explain_death(home: Home, exit_code: int) -> str:
    """What to tell the user of a broker that ended by itself."""
    end = log_end(home)
    how = f"signal {-exit_code}" if exit_code < 0 else f"exit code {exit_code}"
    cause = known_cause(home, end) or "The embedded Kafka ended by itself."
    return f"{cause} ({how}; the whole log is {home.log})\n{end}"


def known_cause(home: Home, text: str) -> str | None:
    """What lies behind the text of a log, and what to do."""
    causes = {
        "No space left on device": f"The disk is full: the embedded Kafka in {home.directory} cannot write. "
        "Free some space, or choose another place with --state-dir.",
        _PORT_TAKEN: "The port of the embedded Kafka is taken by another program. Choose another one with --port.",
        "Permission denied": f"The embedded Kafka may not write in {home.directory}. "
        "Change the owner or the mode of what is there, or choose another place with --state-dir.",
        "Failed to acquire lock on file": f"Another Kafka uses the data in {home.data}. "
        "End it, or choose another place with --state-dir.",
        "nvalid cluster.id": f"The data in {home.data} is that of another Kafka. "
        "Choose another place with --state-dir, or remove that directory.",
        "insufficient memory": "There is not enough memory for the embedded Kafka, which needs about 600 MB.",
    }
    return next((cause for sign, cause in causes.items() if sign in text), None)


def log_end(home: Home) -> str:
    """The last lines of the log, of what matters in them, and what the JVM printed."""
    printed = _lines(home.output)[-_LOG_LINES:]
    logged = _lines(home.log)
    grave = [number for number, line in enumerate(logged) if " ERROR " in line or " FATAL " in line]
    start = grave[0] if grave else len(logged) - _LOG_LINES
    return "\n".join(f"  {line}" for line in (*logged[max(start, 0) :][:_LOG_LINES], *printed))


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines()
    except OSError:
        return []
