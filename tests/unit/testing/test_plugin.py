from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TESTS = """
from headrace import Processor, Serdes, StreamsBuilder, StreamsConfig
from headrace.testing.plugin import topology_test_driver

closed = []

class Closing(Processor):
    def process(self, record): pass
    def close(self): closed.append(True)

def test_first(topology_test_driver):
    b = StreamsBuilder()
    b.stream("in").process(Closing)
    serde = Serdes.string()
    config = StreamsConfig(default_key_serde=serde, default_value_serde=serde)
    topology_test_driver(b.build(), config).input_topic("in").pipe("k", "v", 0)
    assert not closed

def test_then():
    assert closed
"""


def test_the_fixture_makes_drivers_and_closes_them_after_the_test(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "2 passed" in run.stdout, run.stdout + run.stderr
