from __future__ import annotations

from pathlib import Path

import pytest

from headrace import StreamsConfig
from headrace.errors import ConfigError
from headrace.spark.checkpoint_location import LOCATION, CheckpointLocation
from headrace.spark.file_systems import local_path


def located(where: str | None, state_dir: Path = Path("/state")) -> CheckpointLocation:
    spark = {} if where is None else {LOCATION: where}
    return CheckpointLocation.of(StreamsConfig(application_id="orders", spark=spark), state_dir)


@pytest.mark.parametrize(
    ("given", "base", "spark"),
    [
        (None, "/state/checkpoints/orders", "file:///state/checkpoints/orders/spark"),
        ("/elsewhere/", "/elsewhere/orders", "file:///elsewhere/orders/spark"),
        ("file:///else where", "/else where/orders", "file:///else where/orders/spark"),
        ("file:/elsewhere", "/elsewhere/orders", "file:///elsewhere/orders/spark"),
        ("hdfs://name:8020/cp/", "hdfs://name:8020/cp/orders", "hdfs://name:8020/cp/orders/spark"),
        ("s3a://bucket", "s3a://bucket/orders", "s3a://bucket/orders/spark"),
    ],
)
def test_the_application_has_a_directory_of_its_own(given: str | None, base: str, spark: str) -> None:
    location = located(given)
    assert (location.base, location.spark) == (base, spark)
    assert location.is_local == spark.startswith("file:")


def test_a_relative_path_is_below_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert located("checkpoints").base == str(tmp_path / "checkpoints" / "orders")


@pytest.mark.parametrize("uri", ["file://host/path", "file:path"])
def test_a_file_uri_must_be_of_this_machine(uri: str) -> None:
    with pytest.raises(ConfigError, match="write file:///path"):
        local_path(uri)
