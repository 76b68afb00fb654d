"""The benchmark of the service asks what it says it does, and says what is missed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

pytest.importorskip("confluent_kafka")

from benchmarks.asking import Answered, Question, ask
from benchmarks.race import Size
from benchmarks.report import Report
from benchmarks.service import Figure
from benchmarks.tables import show


class Echo(BaseHTTPRequestHandler):
    """Answers with the path that was asked for."""

    protocol_version = "HTTP/1.1"
    asked: list[str]
    clients: set[tuple[str, int]]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.clients.add(self.client_address)
        content = self.path.encode()
        self.send_response(404 if self.path == "/absent" else 200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *ignored: object) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    Echo.asked, Echo.clients = [], set()
    with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_each_question_is_asked_once_over_connections_that_are_kept(address: str) -> None:
    paths = [f"/key-{number}" for number in range(50)]
    answered = ask(address, [Question(path, path.encode()) for path in paths], 4)
    assert sorted(Echo.asked) == sorted(paths)
    assert len(Echo.clients) == 4
    assert len(answered.latencies) == 50 and 0 < max(answered.latencies) <= answered.seconds


@pytest.mark.parametrize("question", [Question("/absent", b"absent"), Question("/a", b"another")])
def test_a_wrong_answer_is_no_figure(address: str, question: Question) -> None:
    with pytest.raises(RuntimeError, match="did not answer as it should"):
        ask(address, [Question("/b", b"/b"), question], 1)


def test_rate_and_percentiles() -> None:
    answered = Answered(2.0, [0.001] * 98 + [0.03, 0.04])
    assert (answered.rate, answered.median_ms, answered.p99_ms) == (50, 1, 40)


def test_targets_are_met_or_missed(capsys: pytest.CaptureFixture[str]) -> None:
    from benchmarks.display import Display

    report = Report(Size(records=1, different=1, rounds=1))
    report.service += [
        Figure("fast enough", 3_000, "reads/s", 3_000, is_limit=False),
        Figure("too slow", 2_999, "reads/s", 3_000, is_limit=False),
        Figure("short enough", 20, "ms", 20, is_limit=True),
        Figure("too long", 20.1, "ms", 20, is_limit=True),
    ]
    show(report, Display())
    lines = capsys.readouterr().out.splitlines()
    missed = {line.split("  ")[0] for line in lines if line.endswith("missed")}
    assert missed == {"too slow", "too long"}


def test_what_could_not_be_measured_is_noted_and_the_rest_goes_on() -> None:
    report = Report(Size(records=1, different=1, rounds=1))
    with report.attempt("latency"):
        raise RuntimeError("nothing was committed")
    with pytest.raises(AssertionError), report.attempt("tiny"):
        raise AssertionError
    assert report.failures == ["latency: nothing was committed"]
