"""The bank in a program of its own, whose failures are to end all instances: python -m … PORT STATE_DIR."""

from __future__ import annotations

import sys
from dataclasses import replace

from examples.bank.pipeline import config, topology
from headrace import Streams
from headrace.serving.config import ServingConfig
from headrace.streams import SHUTDOWN_APPLICATION


def main() -> None:
    port, state_dir = sys.argv[1:]
    app = Streams(topology(), replace(config, state_dir=state_dir), serving=ServingConfig(port=int(port)))
    app.set_uncaught_exception_handler(lambda error: SHUTDOWN_APPLICATION)
    with app:
        app.wait()


if __name__ == "__main__":
    main()
