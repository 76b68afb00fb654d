from __future__ import annotations

import stat
from hashlib import sha256
from pathlib import Path

import pytest

from headrace.errors import EnvironmentFailed
from headrace.kafka import jars, java
from headrace.kafka.jars import JAR_SETS, ORACLE, Jar, JarSet, cached, resolve


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path))
    return tmp_path


def fill(jar_set: JarSet, content: bytes = b"jar") -> Path:
    jar_set.directory.mkdir(parents=True)
    jar = jar_set.directory / "a-1.jar"
    jar.write_bytes(content)
    return jar


@pytest.fixture
def single(tmp_path: Path) -> JarSet:
    """A set of one jar, whose content should be the word jar."""
    hashes = tmp_path / "jars.sha256"
    hashes.write_text(f"{sha256(b'jar').hexdigest()}  single/a-1.jar\n{sha256(b'other').hexdigest()}  other/b-1.jar\n")
    return JarSet("single", (Jar("org.example", "a", "1"),), hashes)


def test_a_whole_cache_is_used(cache: Path, single: JarSet) -> None:
    jar = fill(single)
    assert resolve(single) == [jar]


@pytest.mark.parametrize("damage", ["missing", "short", "changed"])
def test_a_damaged_cache_is_not_used(cache: Path, single: JarSet, damage: str) -> None:
    jar = fill(single)
    if damage == "missing":
        jar.unlink()
    else:
        jar.write_bytes(b"j" if damage == "short" else b"raj")
    assert cached(single) is None


@pytest.mark.parametrize("change", ["changed", "missing", "more"])
def test_a_download_of_other_jars_is_refused_and_leaves_nothing(
    cache: Path, single: JarSet, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def download(jar_set: JarSet, scratch: Path, filled: Path, progress: object) -> None:
        contents = {"changed": {"a-1.jar": b"raj"}, "missing": {}, "more": {"a-1.jar": b"jar", "evil-1.jar": b"x"}}
        for name, content in contents[change].items():
            (filled / name).write_bytes(content)

    monkeypatch.setattr(jars, "_run_ivy", download)
    told = {"changed": "a-1.jar has the SHA-256", "missing": "a-1.jar is missing", "more": "evil-1.jar is not among"}
    with pytest.raises(EnvironmentFailed, match=told[change]):
        resolve(single)
    assert not single.directory.exists()


def test_every_set_has_its_hashes() -> None:
    for jar_set in JAR_SETS.values():
        assert {jar.name for jar in jar_set.jars} <= {name.rpartition("-")[0] for name in jar_set.hashes}


def test_other_coordinates_are_another_directory(cache: Path) -> None:
    newer = JarSet("oracle", (Jar("org.apache.kafka", "kafka-streams-test-utils", "4.4.0"),))
    assert newer.directory != ORACLE.directory
    assert newer.directory.parent == cache / "jars"


def test_what_cannot_be_resolved_is_named_and_leaves_nothing(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(
        f"""<ivysettings><settings defaultResolver="empty"/><resolvers><filesystem name="empty">
        <artifact pattern="{tmp_path}/none/[artifact]-[revision].[ext]"/></filesystem></resolvers></ivysettings>"""
    )
    monkeypatch.setenv("HEADRACE_IVY_SETTINGS", str(settings))
    unknown = JarSet("unknown", (Jar("org.example", "nothing", "1.0"),))
    with pytest.raises(EnvironmentFailed, match=r"org\.example#nothing;1\.0: not found") as raised:
        resolve(unknown)
    assert "HEADRACE_IVY_SETTINGS" in str(raised.value)
    assert [path.name for path in (cache / "jars").iterdir()] == [f"{unknown.directory.name}.lock"]


def test_settings_that_are_not_there_are_named(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_IVY_SETTINGS", str(cache / "absent.xml"))
    with pytest.raises(EnvironmentFailed, match=r"HEADRACE_IVY_SETTINGS names .*absent\.xml"):
        resolve(ORACLE)


def test_without_pyspark_the_extra_is_named(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EnvironmentFailed, match=r"headrace\[spark\]"):
        resolve(ORACLE)


def test_the_oracle_set_is_kafka_streams() -> None:
    names = {jar.name for jar in resolve(ORACLE)}
    assert {"kafka-streams-4.3.1.jar", "kafka-clients-4.3.1.jar", "kafka-streams-test-utils-4.3.1.jar"} <= names


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17),
        ('java version "1.8.0_392"', 8),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "21" 2023-09-19', 21),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ("command not found", None),
    ],
)
def test_versions_of_java(text: str, version: int | None) -> None:
    assert java.parse_version(text) == version


def test_an_old_java_is_named_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "bin" / "java"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(java, "_INSTALL_ROOTS", ())
    with pytest.raises(EnvironmentFailed, match=r"Java 17 or 21 is needed: .*/bin/java is Java 11.*JAVA_HOME"):
        java.find_java()
    # a shell is needed for the fake, and only for it
    assert java.java_version(fake) == 11
