"""Kafka Streams as a process of its own: a small Java program, compiled from source against jars from Ivy.

The compiler is a jar as well, so that a runtime without javac is enough.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from headrace.errors import EnvironmentFailed
from headrace.kafka.jars import Jar, JarSet, resolve
from headrace.kafka.java import find_java

VERSION = "4.3.1"
HASHES = Path(__file__).with_name("jars.sha256")

_LIBRARY = JarSet(
    "kafka-streams",
    (
        Jar("org.apache.kafka", "kafka-streams", VERSION),
        Jar("com.fasterxml.jackson.core", "jackson-databind", "2.21.2"),
    ),
    HASHES,
)
_COMPILER = JarSet("java-compiler", (Jar("org.eclipse.jdt", "ecj", "3.42.0", transitive=False),), HASHES)
_SOURCE = Path(__file__).parent / "java" / "Contender.java"


def compile_program(directory: Path, downloaded: Callable[[int], None]) -> list[str]:
    """Compiles the program into the directory; the command that runs it, without its arguments."""
    java = str(find_java().path)
    library = os.pathsep.join(str(jar) for jar in resolve(_LIBRARY, downloaded))
    compiler = str(resolve(_COMPILER, downloaded)[0])
    command = [java, "-jar", compiler, "-17", "-nowarn", "-cp", library, "-d", str(directory), str(_SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise EnvironmentFailed(f"{_SOURCE} does not compile:\n{done.stdout}{done.stderr}")
    return [java, "-cp", f"{directory}{os.pathsep}{library}", "Contender"]
