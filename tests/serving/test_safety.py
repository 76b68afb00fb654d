"""Who may ask, how much, and what nobody is told."""

from __future__ import annotations

import asyncio
import hmac
import http.client
import logging
import socket
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import msgspec
import pytest
from fastapi import APIRouter, WebSocket
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from headrace import StreamsConfig
from headrace.client import Client, ClientError
from headrace.errors import ConfigError, EnvironmentFailed
from headrace.kafka.clients import ClientSettings
from headrace.serving.config import ServingConfig, is_loopback
from headrace.serving.peer_secret import shared_secret
from headrace.serving.peers import APPLICATION_HEADER, QUERY_PATH, SHUTDOWN_PATH, STATUS_PATH
from headrace.serving.queries import GET, Query
from headrace.serving.rest.app import make_app
from headrace.serving.rest.server import HttpServer
from headrace.serving.routing import PeerError
from headrace.serving.service import shown_settings
from headrace.serving.signing import NUMBER_HEADER, SIGNATURE_HEADER, PeerChecker, PeerSigner, Refused
from tests.serving.conftest import Fixed, MakeStage
from tests.serving.stage import Running, wait_until
from tests.serving.test_routing import KEYS, feed

TOKEN, PEER_TOKEN = "client-secret-1", "peer-secret-2"
TOKENS = ServingConfig(token=TOKEN, peer_token=PEER_TOKEN)


# --- settings ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        {"host": "0.0.0.0"},
        {"host": "::"},
        {"host": ""},
        {"host": "example.org", "token": "a"},
        {"host": "0.0.0.0", "peer_token": "b"},
        {"port": -1},
        {"port": 65536},
        {"advertise": "http://host:80"},
        {"advertise": "../../etc:80"},
        {"advertise": "host"},
        {"token": "with space"},
        {"token": ""},
        {"token": "ümlaut"},
        {"tls_certificate": Path("nowhere.pem")},
        {"tls_certificate": Path("nowhere.pem"), "tls_key": Path("nowhere.key")},
        {"max_requests": 0},
    ],
)
def test_settings_that_cannot_be(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        ServingConfig(**given)


def test_settings_show_no_token() -> None:
    assert "secret" not in repr(TOKENS)
    config = ServingConfig.from_environment({"HEADRACE_TOKEN": "a", "HEADRACE_PEER_TOKEN": "b"}, host="0.0.0.0")
    assert (config.token, config.peer_token, config.uses_tls) == ("a", "b", False)


def test_addresses() -> None:
    assert ServingConfig().address(80) == "127.0.0.1:80"
    assert ServingConfig(host="::1").address(80) == "[::1]:80"
    assert ServingConfig(host="0.0.0.0", token="a", peer_token="b").address(80) == f"{socket.gethostname()}:80"
    assert ServingConfig(advertise="other:90").address(80) == "other:90"
    assert ServingConfig.at("[::1]:90").host == "::1"
    with pytest.raises(ConfigError):
        ServingConfig.at("localhost")
    assert is_loopback("127.0.0.5") and not is_loopback("localhost.example.org")


def test_secrets_are_not_shown() -> None:
    config = StreamsConfig(
        application_id="app",
        bootstrap_servers="kafka:9092",
        kafka={"sasl.password": "hush", "sasl.mechanism": "PLAIN", "sasl.username": "me", "client.id": "x"},
        spark={
            "spark.hadoop.fs.s3a.secret.key": "hush",
            "spark.hadoop.fs.azure.account.key.store": "hush",
            "spark.jars.repositories": "https://me:hush@repository/x",
            "spark.sql.shuffle.partitions": "3",
        },
    )
    shown = shown_settings(config, ClientSettings.of(config))
    assert "hush" not in str(shown)
    assert shown["spark"]["spark.sql.shuffle.partitions"] == "3"
    assert shown["kafka"]["client.id"] == "x"


# --- tokens ------------------------------------------------------------------------------------------------------


@pytest.fixture
def guarded(counting: MakeStage) -> list[Running]:
    """Two instances with tokens, and the one partition on one of them."""
    stage = counting(partitions=1)
    feed(stage)
    running = stage.start_all(2, serving=TOKENS)
    return sorted(running, key=lambda each: len(each.instance.owned("n")))


def test_tokens(guarded: list[Running], http: httpx.Client, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    other = guarded[0]
    for path in ("/v1/stores", "/v1/config", "/v1/instances", "/docs", "/openapi.json", "/v1/stores/n/keys/key1", "/x"):
        for headers in (
            {},
            {"Authorization": TOKEN},
            {"Authorization": f"Bearer {TOKEN}x"},
            {"Authorization": f"Bearer {PEER_TOKEN}"},
            {"Authorization": "Bearer"},
            {SIGNATURE_HEADER: PEER_TOKEN},
        ):
            response = http.get(other.url + path, headers=headers)
            assert response.status_code == 401, (path, headers)
            assert response.headers["www-authenticate"] == "Bearer"
            assert TOKEN not in response.text
    for path in ("/healthz", "/readyz"):
        assert http.get(other.url + path).status_code == 200
    headers = {"Authorization": f"Bearer {TOKEN}"}
    for each in guarded:
        assert http.get(f"{each.url}/v1/stores/n/keys/key1", headers=headers).json()["value"] == 2
        assert "secret" not in http.get(f"{each.url}/v1/config", headers=headers).text
    with Client(other.url, token=TOKEN) as client:
        assert client.store("n").get("key1") == 2
        assert {each["state"] for each in client.instances()} == {"RUNNING"}
    with Client(other.url) as client, pytest.raises(ClientError, match="token is needed"):
        client.store("n").get("key1")
    assert TOKEN not in caplog.text and PEER_TOKEN not in caplog.text


def test_peers_sign_with_a_secret_of_their_own(guarded: list[Running], http: httpx.Client) -> None:
    running = guarded[0]
    application_id = running.service.application_id
    for secret in (TOKEN, "", PEER_TOKEN + "x"):
        signed = PeerSigner(secret.encode(), application_id).sign(running.address, "GET", STATUS_PATH, b"")
        assert http.get(running.url + STATUS_PATH, headers=signed).status_code == 401
    for headers in ({}, {"Authorization": f"Bearer {TOKEN}"}, {"Authorization": f"Bearer {PEER_TOKEN}"}):
        assert http.get(running.url + STATUS_PATH, headers=headers).status_code == 401
        assert http.post(running.url + SHUTDOWN_PATH, headers=headers).status_code == 401
    signer = PeerSigner(PEER_TOKEN.encode(), application_id)
    signed = {APPLICATION_HEADER: application_id, **signer.sign(running.address, "GET", STATUS_PATH, b"")}
    assert http.get(running.url + STATUS_PATH, headers=signed).status_code == 200


def test_a_request_between_peers_counts_once_and_as_it_was(guarded: list[Running], http: httpx.Client) -> None:
    running, ended = guarded[0], threading.Event()
    running.service.on_shutdown = ended.set
    query = msgspec.json.encode(Query(kind=GET, store="n", partitions=(0,), keys=(b"key1",)))
    signed = running.signed("POST", QUERY_PATH, query)
    altered = query.replace(b"a", b"b", 1) if b"a" in query else query + b" "

    def ask(path: str, content: bytes, headers: dict[str, str]) -> httpx.Response:
        return http.post(running.url + path, content=content, headers=headers)

    assert ask(SHUTDOWN_PATH, query, signed).status_code == 401, "another path"
    assert ask(QUERY_PATH, query, {**signed, NUMBER_HEADER: "99"}).status_code == 401, "another number"
    assert ask(QUERY_PATH, altered, signed).status_code == 401, "another body"
    assert "here before" in ask(QUERY_PATH, query, signed).json()["detail"], "its number was used with the other body"
    signed = running.signed("POST", QUERY_PATH, query)
    assert ask(QUERY_PATH, query, signed).status_code == 200
    assert ask(QUERY_PATH, query, signed).status_code == 401, "replayed"
    assert not ended.is_set()


@pytest.mark.parametrize("seconds", [-120, 120])
def test_a_request_of_another_time_is_refused_and_says_so(
    guarded: list[Running], http: httpx.Client, monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    running = guarded[0]
    now = time.time()
    monkeypatch.setattr("headrace.serving.signing.time.time", lambda: now + seconds)
    signed = running.signed("GET", STATUS_PATH)
    monkeypatch.undo()
    response = http.get(running.url + STATUS_PATH, headers=signed)
    assert response.status_code == 401
    assert "clocks of the two instances differ by 1" in response.json()["detail"]


def test_who_takes_an_address_is_sent_no_secret_and_is_not_believed(guarded: list[Running]) -> None:
    """A member of the group may give any address as its own."""
    received: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as forged:

        def answer() -> None:
            connection, _ = forged.accept()
            with connection:
                received.append(connection.recv(65536))
                body = b'{"rows": [], "positions": {}, "refused": {}}'
                head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n{SIGNATURE_HEADER}: {'0' * 64}\r\n\r\n"
                connection.sendall(head.encode() + body)

        thread = threading.Thread(target=answer)
        thread.start()
        address = f"127.0.0.1:{forged.getsockname()[1]}"
        query = Query(kind=GET, store="n", partitions=(0,), keys=(b"key1",))
        with pytest.raises(PeerError, match="not signed by an instance"):
            guarded[0].run(guarded[0].service.peers.ask(address, query, 30))
        thread.join()
    assert PEER_TOKEN.encode() not in received[0] and TOKEN.encode() not in received[0]


def test_what_one_instance_is_asked_another_does_not_answer(guarded: list[Running], http: httpx.Client) -> None:
    """Who takes an address could pass on what comes there."""
    asked, other = guarded
    signed = asked.signed("GET", STATUS_PATH)
    passed_on = http.get(other.url + STATUS_PATH, headers=signed)
    assert passed_on.status_code == 401
    assert "its signature is wrong" in passed_on.json()["detail"]
    assert http.get(asked.url + STATUS_PATH, headers=signed).status_code == 200


def test_instances_without_tokens_find_the_same_secret(counting: MakeStage) -> None:
    stage = counting(partitions=1)
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(shared_secret, stage.settings, stage.config.application_id) for _ in range(8)]
        found = {each.result() for each in asked}
    assert len(found) == 1 and len(found.pop()) == 32


def test_numbers_are_used_once_in_any_order() -> None:
    checker, signer = PeerChecker(b"s", "shop", "here:80"), PeerSigner(b"s", "shop")
    signed = (signer.sign("here:80", "GET", "/x", b"") for _ in range(9_000))
    requests = [{name.lower(): value for name, value in headers.items()} for headers in signed]
    last, *others = reversed(requests)
    checker.check("GET", "/x", last)
    for request in others[:4_000]:
        checker.check("GET", "/x", request)
    for request in (last, others[0], others[3_999], others[8_000]):
        with pytest.raises(Refused, match="here before"):
            checker.check("GET", "/x", request)


def test_tokens_are_compared_in_constant_time(guarded: list[Running], http: httpx.Client, monkeypatch: Any) -> None:
    compared: list[tuple[bytes, bytes]] = []
    original = hmac.compare_digest

    def compare(given: bytes, expected: bytes) -> bool:
        compared.append((given, expected))
        return original(given, expected)

    monkeypatch.setattr("hmac.compare_digest", compare)
    http.get(f"{guarded[0].url}/v1/stores", headers={"Authorization": "Bearer x"})
    assert compared == [(b"Bearer x", f"Bearer {TOKEN}".encode())]
    http.get(guarded[0].url + STATUS_PATH, headers={**guarded[0].signed("GET", STATUS_PATH), SIGNATURE_HEADER: "y"})
    assert compared[1][0] == b"y"


# --- without tokens ----------------------------------------------------------------------------------------------


def test_without_a_token_other_names_and_other_machines_get_nothing(app: Fixed, http: httpx.Client) -> None:
    running = app.any
    for host in ("127.0.0.1", "localhost:8080", "[::1]:80", "127.0.0.1:1"):
        assert http.get(f"{running.url}/v1/stores", headers={"Host": host}).status_code == 200, host
    for host in ("evil.example", "evil.example:8080", "127.0.0.1.evil.example", "10.0.0.1", "localhost.evil.example"):
        response = http.get(f"{running.url}/v1/stores", headers={"Host": host})
        assert response.status_code == 421, host
        assert "it has no token" in response.json()["detail"]
    application = make_app(running.service)
    with TestClient(application, base_url="http://127.0.0.1", client=("10.1.2.3", 5)) as client:
        response = client.get("/v1/stores")
        assert response.status_code == 401 and "HEADRACE_TOKEN" in response.json()["detail"]
        assert client.get("/healthz").status_code == 200


def test_a_token_for_clients_alone_guards_the_peers_paths_too(counting: MakeStage, http: httpx.Client) -> None:
    stage = counting(partitions=1)
    feed(stage)
    one, other = stage.start_all(2, serving=ServingConfig(token=TOKEN))
    assert http.post(one.url + QUERY_PATH).status_code == 401
    for each in (one, other):
        response = http.get(f"{each.url}/v1/stores/n/keys/key1", headers={"Authorization": f"Bearer {TOKEN}"})
        assert response.json()["value"] == 2


def test_a_page_in_a_browser_cannot_end_an_instance(app: Fixed, http: httpx.Client) -> None:
    ended = threading.Event()
    app.any.service.on_shutdown = ended.set
    for running in app.running:
        running.service.on_shutdown = ended.set
        response = http.post(f"{running.url}/internal/v1/shutdown", headers={"Content-Type": "text/plain"})
        assert response.status_code == 401
    assert not ended.is_set()


def test_peers_paths_are_guarded_wherever_the_application_is_found(app: Fixed) -> None:
    ended = threading.Event()
    running = app.running[0]
    running.service.on_shutdown = ended.set
    with TestClient(make_app(running.service), root_path="/shop") as client:
        own = {APPLICATION_HEADER: running.service.application_id}
        assert client.post("/shop/internal/v1/shutdown", headers=own).status_code == 401
        assert client.get(f"/shop{STATUS_PATH}", headers=own).status_code == 401
        assert client.get(f"/shop{STATUS_PATH}", headers=running.signed("GET", STATUS_PATH)).status_code == 200
        assert client.get("/shop/v1/stores/clicks/keys/user1").json()["key"] == "user1"
    assert not ended.is_set()


def test_websockets_of_the_application_need_the_token(guarded: list[Running]) -> None:
    router = APIRouter()

    @router.websocket("/live")
    async def live(websocket: WebSocket) -> None:
        await websocket.accept()
        await websocket.send_text("hello")

    with TestClient(make_app(guarded[0].service, [router])) as client:
        with client.websocket_connect("/live", headers={"Authorization": f"Bearer {TOKEN}"}) as socket_:
            assert socket_.receive_text() == "hello"
        with pytest.raises(WebSocketDisconnect), client.websocket_connect("/live"):
            pass


# --- TLS ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for localhost that vouches for itself, and its key."""
    directory = tmp_path_factory.mktemp("tls")
    certificate, key = directory / "certificate.pem", directory / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    return certificate, key


def test_tls(counting: MakeStage, certificate: tuple[Path, Path]) -> None:
    stage = counting()
    feed(stage)
    config = ServingConfig(tls_certificate=certificate[0], tls_key=certificate[1], tls_authority=certificate[0])
    running = stage.start_all(2, serving=config)
    for each in running:
        with Client(f"https://{each.address}", tls_authority=certificate[0]) as client:
            found = {entry.key: entry.value for entry in client.store("n").all()}
            assert found == {key: 1 + int(key[3:]) for key in KEYS}
            assert {key: client.store("n").get(key) for key in KEYS} == found
    with (
        Client(f"https://{running[0].address}", timeout=5) as client,
        pytest.raises(ClientError, match="CERTIFICATE"),
    ):
        client.stores()
    with Client(running[0].url, timeout=0.5) as client, pytest.raises(ClientError):
        client.stores()


def test_tls_files_that_do_not_fit(tmp_path: Path, certificate: tuple[Path, Path], app: Fixed) -> None:
    server = HttpServer(ServingConfig(tls_certificate=certificate[0], tls_key=certificate[0]))
    with pytest.raises(EnvironmentFailed, match="cannot start"):
        server.start(make_app(app.any.service))
    server.close()


# --- limits ------------------------------------------------------------------------------------------------------


def test_a_body_may_not_be_too_large(counting: MakeStage, http: httpx.Client) -> None:
    stage = counting(partitions=1)
    running = stage.start(ServingConfig(max_body_bytes=1000))
    url = f"{running.url}/v1/stores/n/keys"
    stage.settle([running])
    assert http.post(url, json={"keys": ["x" * 900]}).status_code == 200
    large = b'{"keys": ["' + b"x" * 2000 + b'"]}'
    for content in (large, iter([large[:700], large[700:]])):
        response = http.post(url, content=content, headers={"Content-Type": "application/json"})
        assert response.status_code == 413
        assert response.headers["content-type"] == "application/problem+json"
        assert "1000" in response.json()["detail"]


def test_requests_at_once_are_limited(counting: MakeStage, http: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = counting(partitions=1)
    feed(stage)
    running = stage.start(ServingConfig(max_requests=2))
    stage.settle([running])
    router, over = running.service.router, threading.Event()
    answer = router.ask_locally

    async def work(*arguments: Any) -> Any:
        while not over.is_set():
            await asyncio.sleep(0.01)
        return await answer(*arguments)

    monkeypatch.setattr(router, "ask_locally", work)
    url = f"{running.url}/v1/stores/n/keys/key1"
    with ThreadPoolExecutor(2) as threads:
        asked = [threads.submit(httpx.get, url, timeout=90) for _ in range(2)]
        wait_until(lambda: running.requests == 2, "two requests that are worked on")
        response = http.get(url)
        assert response.status_code == 503
        assert response.headers["retry-after"] == "1" and response.json()["title"] == "Too many requests at once"
        assert http.get(f"{running.url}/healthz").status_code == 200
        # Peers get their answers all the same.
        assert http.get(running.url + STATUS_PATH, headers=running.signed("GET", STATUS_PATH)).status_code == 200
        over.set()
        assert [each.result(90).status_code for each in asked] == [200, 200]
    assert http.get(url).status_code == 200


def test_requests_that_only_wait_leave_their_place_to_others(counting: MakeStage, http: httpx.Client) -> None:
    stage = counting(partitions=1)
    feed(stage)
    running = stage.start(ServingConfig(max_requests=2))
    stage.settle([running])
    copy = running.instance.copy("n", 0)
    assert copy is not None
    waiting = [threading.Thread(target=_wait_for_ever, args=(running,)) for _ in range(5)]
    for number, each in enumerate(waiting, 1):
        each.start()
        wait_until(partial(_has_requests, running, number), "requests that wait")
    assert http.get(f"{running.url}/v1/stores/n/keys/key1").status_code == 200
    copy.position = 10**9
    for each in waiting:
        each.join(90)
    assert http.get(f"{running.url}/v1/stores/n/keys/key1").status_code == 200


def _has_requests(running: Running, count: int) -> bool:
    return running.requests == count


def _wait_for_ever(running: Running) -> None:
    parameters = {"min_position": "0:1000000000", "timeout_ms": "60000"}
    httpx.get(f"{running.url}/v1/stores/n/keys/key1", params=parameters, timeout=90)


# --- names and errors --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "..",
        "%2e%2e",
        "..%2f",
        "..%252f",
        "..%252f..%252fetc%252fpasswd",
        "%00",
        "clicks%00",
        "clicks%2f..",
        "clicks%20",
        "Clicks",
    ],
)
def test_names_of_stores_are_looked_up(app: Fixed, name: str) -> None:
    host, _, port = app.any.address.rpartition(":")
    for path in (
        f"/v1/stores/{name}",
        f"/v1/stores/{name}/keys/a",
        f"/v1/stores/{name}/keys",
        f"/v1/stores/{name}/changes",
    ):
        connection = http.client.HTTPConnection(host, int(port), timeout=60)
        connection.request("GET", path)
        response = connection.getresponse()
        content = response.read().decode()
        connection.close()
        assert response.status in (400, 404), (path, content)
        assert "Traceback" not in content and "/tmp" not in content and "site-packages" not in content


def test_unknown_paths_are_problems(app: Fixed, http: httpx.Client) -> None:
    for path in ("/", "/nothing", "/v1", "/v1/store", "/v1/stores/clicks/nothing", "/internal", "/internal/v1/nothing"):
        running = app.any
        response = http.get(running.url + path, headers=running.signed("GET", path))
        assert response.status_code == 404, path
        assert response.headers["content-type"] == "application/problem+json"
        assert response.json()["status"] == 404


def test_errors_show_no_internals(app: Fixed, http: httpx.Client, monkeypatch: Any, caplog: Any) -> None:
    def fail(*ignored: Any) -> None:
        raise RuntimeError("the inner workings at /secret/path")

    running = app.running[0]
    monkeypatch.setattr(running.service.router, "ask", fail)
    response = http.get(f"{running.url}/v1/stores/clicks/keys/user1")
    assert response.status_code == 500
    assert response.headers["content-type"] == "application/problem+json"
    assert "inner" not in response.text and "secret" not in response.text
    assert "inner workings" in caplog.text


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    path=st.binary(max_size=40).map(lambda data: quote(data, safe="/?&=%")),
    query=st.dictionaries(st.sampled_from(["limit", "cursor", "from", "to", "prefix", "as_of", "x"]), st.text()),
    headers=st.dictionaries(
        st.sampled_from(["Content-Length", "Accept", "Authorization", "Last-Event-ID", "Content-Type", "Host", "X-A"]),
        st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20),
    ),
    method=st.sampled_from(["GET", "POST", "PUT", "HEAD", "OPTIONS"]),
    root=st.sampled_from(
        ["/", "/v1/stores/", "/v1/stores/clicks/keys/", "/v1/stores/minutes/windows/", "/internal/v1/"]
    ),
)
def test_any_path_and_header(
    app: Fixed, path: str, query: dict[str, str], headers: dict[str, str], method: str, root: str
) -> None:
    host, _, port = app.running[0].address.rpartition(":")
    encoded = "&".join(f"{name}={quote(value.encode('utf-8', 'replace'))}" for name, value in query.items())
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        lines = [f"{method} {root}{path}?{encoded} HTTP/1.1", "Host: x", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in headers.items() if name != "Content-Length" or value.isdigit()]
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        connection.shutdown(socket.SHUT_WR)
        answered = connection.makefile("rb").readline()
    if answered:
        assert int(answered.split()[1]) < 500, (lines, answered)
