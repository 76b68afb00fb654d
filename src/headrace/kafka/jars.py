"""Jars by Maven coordinates, resolved once with the Ivy that pyspark ships and kept in a cache.

A set of jars is a directory `<cache>/jars/<set>-<hash of its coordinates>`. It is filled beside its final place and
renamed when complete. `jars.sha256` has the hash of every jar of every set. They are checked after a download and on
every use: jars that were changed on the way, or in the cache, are not run.

    HEADRACE_CACHE          the cache directory, instead of headrace in the user's cache directory
    HEADRACE_IVY_SETTINGS   an ivysettings.xml, for a mirror or a proxy repository
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from xml.sax.saxutils import quoteattr

from headrace.errors import EnvironmentFailed
from headrace.kafka.java import find_java

_HASHES = Path(__file__).with_name("jars.sha256")
_RETRIEVE_PATTERN = "[artifact]-[revision](-[classifier]).[ext]"


@dataclass(frozen=True)
class Jar:
    """Maven coordinates of a jar; with `transitive`, of all it depends on too."""

    org: str
    name: str
    revision: str
    transitive: bool = True


@dataclass(frozen=True)
class JarSet:
    """Jars that are resolved together and make one class path."""

    name: str
    jars: tuple[Jar, ...]
    hash_file: Path = _HASHES
    """Where the hashes of its jars are, those of other sets too: `<hash>  <set>/<jar>` by line."""

    @cached_property
    def hashes(self) -> dict[str, str]:
        """By file name the SHA-256 of each jar."""
        lines = (line.split() for line in self.hash_file.read_text().splitlines())
        named = ((path.split("/"), digest) for digest, path in lines)
        return {jar: digest for (jar_set, jar), digest in named if jar_set == self.name}

    @property
    def directory(self) -> Path:
        """Where the resolved jars are, or will be."""
        digest = hashlib.sha256(repr(self.jars).encode()).hexdigest()[:12]
        return cache_directory() / "jars" / f"{self.name}-{digest}"


ORACLE = JarSet("oracle", (Jar("org.apache.kafka", "kafka-streams-test-utils", "4.3.1"),))
BROKER = JarSet(
    "broker",
    (
        Jar("org.apache.kafka", "kafka_2.13", "4.3.1"),
        # Kafka's own dependencies leave its log without an outlet.
        Jar("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4", transitive=False),
    ),
)
JAR_SETS = {jar_set.name: jar_set for jar_set in (ORACLE, BROKER)}

Progress = Callable[[int], None]
"""Called with the number of jars downloaded so far."""


def cache_directory() -> Path:
    """The directory of everything Headrace downloads."""
    if chosen := os.environ.get("HEADRACE_CACHE"):
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "headrace"


def resolve(jar_set: JarSet, progress: Progress | None = None) -> list[Path]:
    """The paths of all jars of the set, downloaded if they are not in the cache."""
    jars = cached(jar_set)
    if jars is not None:
        return jars
    directory = jar_set.directory
    directory.parent.mkdir(parents=True, exist_ok=True)
    with _locked(directory.with_name(f"{directory.name}.lock")):
        jars = cached(jar_set)  # another process may have been faster
        if jars is not None:
            return jars
        _download(jar_set, progress)
    jars = cached(jar_set)
    if jars is None:
        raise EnvironmentFailed(f"The jars in {directory} vanished while they were written; run this again.")
    return jars


def cached(jar_set: JarSet) -> list[Path] | None:
    """The paths of the set's jars if all are in the cache, each with the hash it should have; else None."""
    paths = [jar_set.directory / name for name in jar_set.hashes]
    try:
        sound = all(hash_of(path) == digest for path, digest in zip(paths, jar_set.hashes.values(), strict=True))
    except OSError:
        return None
    return paths if paths and sound else None


def hash_of(jar: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(jar.read_bytes()).hexdigest()


def _download(jar_set: JarSet, progress: Progress | None) -> None:
    directory = jar_set.directory
    with tempfile.TemporaryDirectory(prefix=f".{directory.name}-", dir=directory.parent) as scratch:
        filled = Path(scratch) / "jars"
        filled.mkdir()
        _run_ivy(jar_set, Path(scratch), filled, progress)
        _check(jar_set, {jar.name: hash_of(jar) for jar in sorted(filled.glob("*.jar"))})
        if directory.exists():
            shutil.rmtree(directory)
        filled.rename(directory)


def _check(jar_set: JarSet, found: Mapping[str, str]) -> None:
    """Raises EnvironmentFailed where what was downloaded is not what was meant."""
    wrong = [f"{name} is missing" for name in jar_set.hashes.keys() - found.keys()]
    wrong += [f"{name} is not among the jars of the set" for name in found.keys() - jar_set.hashes.keys()]
    wrong += [
        f"{name} has the SHA-256 {found[name]} instead of {digest}"
        for name, digest in jar_set.hashes.items()
        if found.get(name, digest) != digest
    ]
    if wrong:
        listed = "\n".join(f"  {each}" for each in sorted(wrong))
        raise EnvironmentFailed(
            f"The jars that were downloaded for the set '{jar_set.name}' are not the ones Headrace was tested with:\n"
            f"{listed}\nNothing of them is used. They may have been changed on the way, or by the mirror that "
            "HEADRACE_IVY_SETTINGS names."
        )


def _run_ivy(jar_set: JarSet, scratch: Path, filled: Path, progress: Progress | None) -> None:
    module = scratch / "ivy.xml"
    module.write_text(_ivy_module(jar_set))
    command = [str(find_java().path), "-jar", str(_ivy_jar())]
    if settings := os.environ.get("HEADRACE_IVY_SETTINGS"):
        if not Path(settings).is_file():
            raise EnvironmentFailed(f"HEADRACE_IVY_SETTINGS names {settings}, which is not a file.")
        command += ["-settings", settings]
    command += ["-ivy", str(module), "-confs", "default", "-cache", str(scratch / "ivy")]
    command += ["-retrieve", f"{filled}/{_RETRIEVE_PATTERN}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as ivy:
        assert ivy.stdout is not None
        lines: list[str] = []
        downloaded = 0
        for line in ivy.stdout:
            lines.append(line.rstrip())
            if "[SUCCESSFUL ]" in line and ".jar" in line:
                downloaded += 1
                if progress is not None:
                    progress(downloaded)
    problems = _problems(lines)
    if ivy.returncode != 0 or problems:
        raise EnvironmentFailed(_explain(jar_set, problems or lines[-10:]))


def _ivy_module(jar_set: JarSet) -> str:
    dependencies = "\n".join(
        f"    <dependency org={quoteattr(jar.org)} name={quoteattr(jar.name)} rev={quoteattr(jar.revision)}"
        f' conf="default->default" transitive="{str(jar.transitive).lower()}"/>'
        for jar in jar_set.jars
    )
    return f"""<ivy-module version="2.0">
  <info organisation="headrace" module={quoteattr(jar_set.name)}/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}
  </dependencies>
</ivy-module>
"""


def _ivy_jar() -> Path:
    # find_spec locates the package without importing it.
    spec = importlib.util.find_spec("pyspark")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        for jar in sorted(Path(place, "jars").glob("ivy-*.jar")):
            return jar
    raise EnvironmentFailed("Jars are resolved with pyspark's Ivy: install it with pip install 'headrace[spark]'.")


def _problems(lines: list[str]) -> list[str]:
    """What Ivy lists under its headings for what is unresolved or failed."""
    problems: list[str] = []
    listing = False
    for line in lines:
        text = line.strip().removeprefix("::").removesuffix("::").strip()
        if text in ("UNRESOLVED DEPENDENCIES", "FAILED DOWNLOADS"):
            listing = True
        elif listing and "#" in text:
            problems.append(text)
        elif listing and text.strip(":") and "^" not in text:
            listing = False
    return list(dict.fromkeys(problems))


def _explain(jar_set: JarSet, details: list[str]) -> str:
    listed = "\n".join(f"  {detail}" for detail in details)
    return (
        f"The jar set '{jar_set.name}' could not be resolved:\n{listed}\n"
        "Check the network. Where jars come from a mirror, set HEADRACE_IVY_SETTINGS to the path of an ivysettings.xml "
        "that names it."
    )


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _show_count(count: int) -> None:
    print(f"\r      {count} jars", end="", file=sys.stderr, flush=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m headrace.kafka.jars", description="Resolve a set of jars.")
    parser.add_argument("jar_set", choices=sorted(JAR_SETS), help="which set")
    parser.add_argument("--cached", action="store_true", help="download nothing; exit with 1 if it is not in the cache")
    options = parser.parse_args(arguments)
    jar_set = JAR_SETS[options.jar_set]
    if options.cached:
        if cached(jar_set) is None:
            return 1
    else:
        interactive = sys.stderr.isatty()
        try:
            count = len(resolve(jar_set, _show_count if interactive else None))
        except EnvironmentFailed as error:
            print(f"\n{error}" if interactive else error, file=sys.stderr)
            return 1
        print(f"\r      {count} jars" if interactive else f"{count} jars", file=sys.stderr)
    print(jar_set.directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
