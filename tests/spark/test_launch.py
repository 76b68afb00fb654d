"""Spark's JVM, as it is started from a process that has Kafka clients."""

from __future__ import annotations

import subprocess
import sys

import pytest

from headrace.errors import EnvironmentFailed
from headrace.kafka.java import find_java
from headrace.spark.launch import launch_jvm

_LAUNCH = """
import os
from headrace.spark.launch import launch_jvm
os.register_at_fork(after_in_child=lambda: os.write(2, b"Python ran between fork and exec"))
gateway = launch_jvm({"spark.master": "local[1]"})
print(gateway.jvm.java.lang.System.getProperty("spark.master"))
print(sorted(name for name in os.environ if "GATEWAY" in name))
"""


@pytest.fixture(autouse=True)
def java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(find_java().path.resolve().parent.parent))


def test_no_python_runs_between_fork_and_exec() -> None:
    """There it would free Kafka clients of other threads, whose own threads the child does not have: it crashed."""
    ended = subprocess.run([sys.executable, "-c", _LAUNCH], capture_output=True, text=True, timeout=120, check=True)
    assert ended.stdout.splitlines() == ["local[1]", "[]"]
    assert "Python ran between fork and exec" not in ended.stderr


def test_a_jvm_that_does_not_start_is_told_of() -> None:
    with pytest.raises(EnvironmentFailed, match="Spark's JVM ended with exit code 1 before it was ready"):
        launch_jvm({"spark.driver.extraJavaOptions": "-Xms1x"})
