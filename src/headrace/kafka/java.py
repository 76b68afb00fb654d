"""The Java that runs Kafka's and Spark's jars."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import EnvironmentFailed

SUPPORTED_VERSIONS = (17, 21)

_INSTALL_ROOTS = (Path("/usr/lib/jvm"), Path("/Library/Java/JavaVirtualMachines"))
_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')


@dataclass(frozen=True)
class Java:
    """A Java executable and its feature version (17, 21, …)."""

    path: Path
    version: int


def find_java() -> Java:
    """The first supported Java of JAVA_HOME, PATH and the system's usual places; EnvironmentFailed if there is none."""
    rejected: list[Java] = []
    for path in _candidates():
        version = java_version(path)
        if version in SUPPORTED_VERSIONS:
            return Java(path, version)
        if version is not None:
            rejected.append(Java(path, version))
    found = "; ".join(f"{java.path} is Java {java.version}" for java in rejected) or "no Java was found"
    raise EnvironmentFailed(
        f"Java 17 or 21 is needed: {found}. Install one (Debian, Ubuntu: openjdk-17-jre-headless), "
        "or set JAVA_HOME to where it is."
    )


def java_version(path: Path) -> int | None:
    """The feature version that the executable reports, None if it does not run."""
    try:
        done = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_version(done.stderr + done.stdout) if done.returncode == 0 else None


def parse_version(text: str) -> int | None:
    """The feature version in the output of `java -version`; "1.8.0_392" is 8."""
    match = _VERSION.search(text)
    if match is None:
        return None
    major, minor = match.groups()
    return int(minor) if major == "1" and minor else int(major)


def _candidates() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if on_path := shutil.which("java"):
        yield Path(on_path)
    for root in _INSTALL_ROOTS:
        yield from sorted(root.glob("*/bin/java"))
        yield from sorted(root.glob("*/Contents/Home/bin/java"))


def main() -> int:
    try:
        print(find_java().path)
    except EnvironmentFailed as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
