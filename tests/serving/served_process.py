"""An instance in a process of its own: `python -m tests.serving.served_process SETTINGS`.

SETTINGS is JSON: servers, application_id, state_dir and topic. It prints its address and serves until its input ends.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from headrace import StreamsConfig
from headrace.kafka.clients import ClientSettings
from headrace.serving.config import ServingConfig
from headrace.serving.rest.app import make_app
from headrace.serving.rest.server import HttpServer
from headrace.serving.service import Service
from tests.serving.shop import counter


def main() -> None:
    given = json.loads(sys.argv[1])
    serving = ServingConfig()
    server = HttpServer(serving)
    service = Service.of(
        counter(given["topic"]),
        StreamsConfig(application_id=given["application_id"], bootstrap_servers=given["servers"]),
        serving,
        ClientSettings(given["servers"]),
        Path(given["state_dir"]),
        address=server.address,
    )
    service.instance.start()
    server.start(make_app(service))
    print(server.address, flush=True)
    sys.stdin.read()
    service.closing.set()
    server.close()
    service.instance.close()


if __name__ == "__main__":
    main()
