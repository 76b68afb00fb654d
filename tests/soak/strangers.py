"""Those who mean no good: clients that only hold connections, and members of the group that are no instances."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from confluent_kafka import Consumer

from headrace.kafka.clients import ClientSettings
from headrace.serving.membership import instances_group
from headrace.serving.signing import SIGNATURE_HEADER
from tests.histories.orders import APPLICATION, REVENUE, STORES, changelog

_SUBSCRIBERS = 50
_HALF_SENT = 100
_WAITING = 20
_ANSWER_SECONDS = 2.0
_NOTHING = b'{"rows": [], "positions": {}, "refused": {}}'


@contextmanager
def slow_clients(address: str) -> Iterator[None]:
    """Meanwhile clients ask an instance for much, or begin to, and read nothing of what it answers."""
    revenue = f"/v1/stores/{REVENUE}"
    asked = [
        *[f"GET {revenue}/changes HTTP/1.1\r\nHost: {address}\r\n\r\n"] * _SUBSCRIBERS,
        *[f"GET {revenue}/keys HTTP/1.1\r\nHost: {address}\r\nX: "] * _HALF_SENT,
        *[f"GET {revenue}/keys/a?min_position=0:99999999 HTTP/1.1\r\nHost: {address}\r\n\r\n"] * _WAITING,
    ]
    host, _, port = address.partition(":")
    with ExitStack() as stack:
        for request in asked:
            with suppress(OSError):
                connection = socket.create_connection((host, int(port)), timeout=_ANSWER_SECONDS)
                stack.enter_context(connection)
                connection.sendall(request.encode())
        yield


@contextmanager
def forged_member(settings: ClientSettings, address: str) -> Iterator[None]:
    """Meanwhile a stranger is a member of the instances' group, and gives an address as its own."""
    forged = {"partition.assignment.strategy": "cooperative-sticky", "client.id": address}
    consumer = Consumer({**settings.consumer(**{"group.id": instances_group(APPLICATION), **forged}), "log_level": 0})
    consumer.subscribe([changelog(store) for store in STORES])
    over = threading.Event()

    def stay() -> None:
        while not over.is_set():
            consumer.poll(0.1)

    thread = threading.Thread(target=stay, name="forged member")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        consumer.close()


class Liar:
    """A server that says to all it is asked that there is nothing, and passes the question on to an instance."""

    def __init__(self, instance: str) -> None:
        self._instance = instance
        self.believed = 0
        """How many questions that were passed on the instance has answered."""
        liar = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                content = self.rfile.read(int(self.headers.get("content-length", 0)))
                liar._pass_on(self.command, self.path, content, dict(self.headers))
                self.send_response(200)
                self.send_header("content-length", str(len(_NOTHING)))
                self.send_header(SIGNATURE_HEADER, "0" * 64)
                self.end_headers()
                self.wfile.write(_NOTHING)

            do_POST = do_GET

            def log_message(self, format: str, *arguments: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Liar:
        threading.Thread(target=self._server.serve_forever, name="liar", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _pass_on(self, method: str, path: str, content: bytes, headers: dict[str, str]) -> None:
        connection = http.client.HTTPConnection(self._instance, timeout=_ANSWER_SECONDS)
        with suppress(OSError, http.client.HTTPException):
            connection.request(method, path, content, headers)
            self.believed += connection.getresponse().status == 200
        connection.close()
