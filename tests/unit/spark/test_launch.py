"""How Spark's settings get to its JVM."""

from __future__ import annotations

import pytest

from headrace.errors import ConfigError
from headrace.java_properties import java_properties
from headrace.spark.launch import java_arguments
from headrace.spark.session import security


def test_settings_are_written_as_java_reads_them() -> None:
    settings = {"spark.a": "b c=d:e", "spark.f": "back\\slash\nlineé"}
    assert java_properties(settings) == "spark.a=b\\ c\\=d\\:e\nspark.f=back\\\\slash\\nline\\u00e9\n"
    assert java_arguments('-Xmx1g "-Da=b c" \'-Dq="\'') == '"-Xmx1g"\n"-Da=b c"\n"-Dq=\\""\n'


def test_who_connects_to_spark_is_asked_for_a_secret() -> None:
    assert security("local[*]", {}) == {"spark.authenticate": "true"}
    on = {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}
    assert security("yarn", {}) == on
    assert security("spark://host:7077", {"spark.authenticate.secret": "s"}) == on
    assert security("spark://host:7077", {"spark.authenticate": "false"}) == on, "the user's settings override these"
    with pytest.raises(ConfigError, match=r"Give the cluster's spark\.authenticate\.secret"):
        security("spark://host:7077", {})
