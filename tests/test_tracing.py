import http.server
import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

import pytest

from pairproxy.config import Settings
from pairproxy.core.errors import ConfigError
from pairproxy.loading import load
from pairproxy.tracing import BASE, EXACT, Tracing, destination
from tests.core.accounting.conversation import A, served
from tests.support.running import run_async

RECORD = served("0123456789abcdef" * 2, 990.0, 990.5, 995.0)
HERE, ELSEWHERE = "http://127.0.0.1:4318", "https://collector.example:4318"


@pytest.mark.parametrize(
    ("setting", "environment", "where"),
    [
        ("", {}, None),
        (HERE, {}, f"{HERE}/v1/traces"),
        (f"{HERE}/", {}, f"{HERE}/v1/traces"),
        (f"{HERE}/mine", {}, f"{HERE}/mine"),
        (ELSEWHERE, {}, f"{ELSEWHERE}/v1/traces"),  # a person wrote it
        (HERE, {BASE: "http://[::1]:1"}, f"{HERE}/v1/traces"),
        ("", {BASE: "http://[::1]:4318"}, "http://[::1]:4318/v1/traces"),
        ("", {BASE: "http://localhost:4318"}, "http://localhost:4318/v1/traces"),
        ("", {EXACT: f"{HERE}/exact", BASE: "http://[::1]:1"}, f"{HERE}/exact"),
        ("", {BASE: HERE, "OTEL_SDK_DISABLED": "true"}, None),
        ("", {BASE: HERE, "OTEL_TRACES_EXPORTER": "none"}, None),
    ],
)
def test_where_traces_go(setting: str, environment: dict[str, str], where: str | None) -> None:
    """The setting counts before the variables; a collector's address gets the path of traces."""
    assert destination(setting, environment) == where


@pytest.mark.parametrize("name", [BASE, EXACT])
@pytest.mark.parametrize(
    "address",
    [
        ELSEWHERE,
        "http://192.168.0.7:4318",
        "http://127.0.0.1.example:4318",
        "http://127.0.0.1.nip.io",
        "http://localhost.example",
        "http://127.0.0.1@h:1",
        "http://2130706433",
        "http://0x7f.1",
        "http://0.0.0.0:4318",
    ],
)
def test_a_variable_does_not_send_anything_out(
    name: str, address: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It may be set for all programs of a machine; the log says what to do if it is meant."""
    assert destination("", {name: address}) is None
    assert "set tracing.endpoint" in caplog.text


ACCEPTED = (
    HERE,
    "http://user:word@127.0.0.1:4318",
    "http://localhost:4318#@stranger.example/",
    "http://localhost:4318?@stranger.example/",
    "http://stranger.example;@127.0.0.1/",
    "http://LOCALHOST",
    "http://[::1]:4318",
)


@pytest.mark.parametrize("address", ACCEPTED)
def test_who_connects_reads_an_address_as_it_was_checked(address: str) -> None:
    """The library takes URLs apart by other rules; of what counts as this machine it goes nowhere else."""
    requests = pytest.importorskip("requests")
    where = destination("", {BASE: address})
    url = requests.Request("POST", where).prepare().url
    assert requests.compat.urlparse(url).hostname in ("127.0.0.1", "localhost", "::1")


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1:4318",
        "grpc://127.0.0.1:4317",
        "http://",
        "http://a:b",
        "x\ny",
        "http://stranger.example\\@127.0.0.1:4318",  # requests goes to the stranger
    ],
)
def test_what_is_no_address(address: str, caplog: pytest.LogCaptureFixture) -> None:
    """As a setting it is refused when settings are read; as a variable it is told, and nothing is sent."""
    with pytest.raises(ConfigError, match=r"tracing\.endpoint is not a URL like"):
        load(None, {"PAIRPROXY_TRACING_ENDPOINT": address})
    with pytest.raises(ConfigError, match=r"tracing\.endpoint"):
        destination(address, {})
    assert destination("", {BASE: address}) is None
    assert BASE in caplog.text
    assert load(None, {"PAIRPROXY_TRACING_ENDPOINT": HERE}).tracing.endpoint == HERE


def test_without_a_wish_nothing_is_loaded() -> None:
    """A record costs nothing, and there is nothing to count or to stop."""
    before = set(sys.modules)

    async def main() -> None:
        tracing = Tracing(Settings().tracing.endpoint, {}, A, lambda: 1000.0)
        tracing.hear(RECORD)
        assert not tracing.is_on
        assert tracing.counts() == {}
        await tracing.stop()

    run_async(main())
    assert not [name for name in set(sys.modules) - before if name.startswith("opentelemetry")]


def test_without_the_library_a_setting_is_refused_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It says what to install; a variable that all programs share is told, and the daemon starts."""
    # The module itself: a test before this one may have imported it.
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(ConfigError, match=r"pip install 'pairproxy\[tracing\]', or remove the setting"):
        Tracing(HERE, {}, A, lambda: 1000.0)
    assert not Tracing("", {BASE: HERE}, A, lambda: 1000.0).is_on
    assert "pip install 'pairproxy[tracing]'" in caplog.text


class Collector(http.server.BaseHTTPRequestHandler):
    """Takes what is sent and answers with ``status``."""

    status = 200
    taken: ClassVar[list[tuple[str, bytes]]]

    def do_POST(self) -> None:
        self.taken.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(self.status)
        self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Tests are silent."""


@contextmanager
def collector(status: int = 200) -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """One on loopback: (its address, what it takes)."""
    taken: list[tuple[str, bytes]] = []
    kind = type("One", (Collector,), {"status": status, "taken": taken})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}", taken
        server.shutdown()
        serving.join()


def needs_exporter() -> None:
    """Skip where the extra is not installed."""
    reason = "the exporter of pairproxy[tracing] is not installed: what it sends is not seen"
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason=reason)


def test_spans_reach_a_collector(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Those that wait are sent at the end, directly, whatever proxy the environment names."""
    needs_exporter()
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with collector() as (address, taken), caplog.at_level(logging.INFO):
        run_async(send(f"http://user:CANARY@{address.removeprefix('http://')}", {"sent": 2, "lost": 0}))
    ((path, body),) = taken
    assert path == "/v1/traces"
    assert b"chat m" in body
    assert "CANARY" not in caplog.text


@pytest.mark.parametrize("status", [307, 400])
def test_a_collector_that_refuses(status: int, caplog: pytest.LogCaptureFixture) -> None:
    """Spans are lost and counted; nobody is followed to another address, and the log says it once."""
    needs_exporter()
    with collector(status) as (address, taken):
        run_async(send(address, {"sent": 0, "lost": 2}))
    assert {path for path, _ in taken} == {"/v1/traces"}
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING] == [
        f"{address} takes no traces; they are lost until it does"
    ]


async def send(address: str, counts: dict[str, int]) -> None:
    """Trace one request and stop; what is counted then is ``counts``."""
    tracing = Tracing(address, {}, A, lambda: 1000.0)
    assert tracing.is_on
    tracing.hear(RECORD)
    await tracing.stop()
    assert tracing.counts() == counts


def test_a_collector_that_hangs_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopping gives up after its time."""
    needs_exporter()
    monkeypatch.setattr("pairproxy.tracing.STOP_S", 0.2)
    go_on = threading.Event()

    class Hanging(Collector):
        taken: ClassVar[list[tuple[str, bytes]]] = []

        def do_POST(self) -> None:
            go_on.wait(20.0)
            super().do_POST()

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hanging) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        run_async(send(f"http://127.0.0.1:{server.server_port}", {"sent": 0, "lost": 0}))
        go_on.set()
        server.shutdown()
