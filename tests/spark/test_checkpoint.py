"""Checkpoints on a file system that is reached through Spark alone: Hadoop's viewfs, which needs no server."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace import Streams
from headrace.errors import TopologyError
from headrace.kafka.embedded import EmbeddedKafka
from headrace.spark.checkpoint_location import LOCATION, CheckpointLocation
from headrace.spark.file_systems import open_directory
from tests.spark.lab import Lab


@pytest.fixture
def mounted(spark: SparkSession, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The URI of a directory and the place where its files really are."""
    place = tmp_path / "mounted"
    place.mkdir()
    table = f"test-{uuid.uuid4().hex[:8]}"
    setting = f"fs.viewfs.mounttable.{table}.link./shared"
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    configuration.set(setting, f"file://{place}")
    yield f"viewfs://{table}/shared", place
    configuration.unset(setting)


def test_a_directory_of_files(spark: SparkSession, mounted: tuple[str, Path]) -> None:
    uri, place = mounted
    directory = open_directory(f"{uri}/deep/below", spark)
    assert directory.names() == set()
    assert directory.read("nothing") is None
    large = bytes(range(256)) * (5 << 12)  # more than goes through the gateway at once
    directory.write("large", large)
    directory.write("empty", b"")
    directory.write("twice", b"first")
    directory.remove("twice")
    directory.write("twice", b"second")
    assert directory.names() == {"large", "empty", "twice"}
    assert [directory.read(name) for name in ("large", "empty", "twice")] == [large, b"", b"second"]
    assert (place / "deep" / "below" / "large").read_bytes() == large
    directory.remove("twice")
    directory.remove("twice")
    assert directory.names() == {"large", "empty"}
    directory.remove_all()
    assert not (place / "deep" / "below").exists()
    assert directory.names() == set()


def test_an_application_keeps_everything_there(
    embedded_kafka: EmbeddedKafka, spark: SparkSession, mounted: tuple[str, Path], tmp_path: Path
) -> None:
    uri, place = mounted
    lab = Lab(embedded_kafka.bootstrap_servers, tmp_path / "state")
    config = lab.config(spark={LOCATION: uri})
    lab.create_topics()
    with Streams(lab.topology(store="counts"), config) as application:
        lab.send("a", "b")
        application.process_all_available()
    base = place / lab.application_id
    assert {path.name for path in base.iterdir() if not path.name.startswith(".")} == {
        "spark",
        "state",
        "topology.json",
    }
    assert any((base / "spark" / "commits").iterdir())
    assert any(path.name.startswith("changes-") for path in (base / "state").iterdir())

    before = sorted(base.rglob("*"))
    with pytest.raises(TopologyError, match=r"store counts \(timestamped key-value\) is gone"):
        Streams(lab.topology(), config).start()
    assert sorted(base.rglob("*")) == before

    CheckpointLocation.of(config, tmp_path).root(spark).remove_all()
    assert not base.exists()
