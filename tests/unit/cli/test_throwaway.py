"""A directory goes with its process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from headrace.cli.throwaway import throwaway_directory
from tests.instances.processes import wait_until

_SECONDS = 60.0
PROGRAM = """
from headrace.cli.throwaway import throwaway_directory
with throwaway_directory("test-throwaway-") as directory:
    (directory / "data").mkdir()
    print(directory, flush=True)
    input()
"""


def test_it_is_there_until_the_end_of_the_block() -> None:
    with throwaway_directory("test-throwaway-") as directory:
        (directory / "file").touch()

    assert not directory.exists()


def test_it_goes_when_its_process_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        directory = Path(process.stdout.readline().strip())
        assert (directory / "data").is_dir()
        process.kill()

    wait_until(lambda: not directory.exists(), "the directory is removed", _SECONDS)


def test_what_is_written_after_the_end_goes_too(tmp_path: Path) -> None:
    """A child that outlives its parent for a moment makes the directory again."""
    program = f"{PROGRAM}    import os, subprocess, sys\n"
    late = f"import os, time; time.sleep(1); os.makedirs(sys.argv[1] + '/late'); open({str(tmp_path / 'done')!r}, 'w')"
    program += f"    subprocess.Popen([sys.executable, '-c', {'import sys; ' + late!r}, str(directory)])\n"
    program += "    os._exit(0)\n"
    done = subprocess.run(
        [sys.executable, "-c", program], input="\n", stdout=subprocess.PIPE, text=True, check=True, timeout=_SECONDS
    )
    directory = Path(done.stdout.splitlines()[0])

    wait_until((tmp_path / "done").exists, "the child has written", _SECONDS)
    wait_until(lambda: not directory.exists(), "the directory is removed again", _SECONDS)
