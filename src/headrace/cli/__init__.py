"""The command `headrace`."""

from __future__ import annotations

import sys


def main() -> None:
    """Runs the command with the arguments of the process."""
    try:
        from headrace.cli.app import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit("The command needs more than the library: pip install 'headrace[spark]'")
    app(prog_name="headrace")
