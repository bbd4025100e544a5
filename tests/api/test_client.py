import contextlib
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest

from pairproxy.api import client
from pairproxy.api.client import (
    DAEMON_FILE,
    NoDaemon,
    already_running,
    get_report,
    get_status,
    post,
    read_daemon_file,
    trust_changed,
)
from pairproxy.api.schema import DaemonFile, Report, Status, TrustChanged
from pairproxy.core.errors import PairproxyError

FILE = DaemonFile(
    pid=4711, node="N" * 52, name="anna", admin_port=1, peer_port=None, client_ports={}, token="t0k"
)
STATUS = Status("0.1.0", "N" * 52, "anna", 1.0, "fastest-finish", False, 0, (), (), 0, None, {}, None)
REPORT = Report(None, (), {"N" * 52: "anna"})


class Server(ThreadingHTTPServer):
    """Answers everything the same; keeps the paths, and what came with a POST."""

    daemon_threads = True

    def __init__(self, status: int, body: bytes) -> None:
        self.paths: list[str] = []
        self.shown: list[str | None] = []
        self.posted: list[tuple[str, str | None, bytes]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.paths.append(self.path)
                server.shown.append(self.headers["Authorization"])
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self) -> None:
                sent = self.rfile.read(int(self.headers["Content-Length"]))
                server.posted.append((self.path, self.headers["Authorization"], sent))
                self.do_GET()

            def log_message(self, *_: object) -> None:
                """Tests read no access log."""

        super().__init__(("127.0.0.1", 0), Handler)


@contextlib.contextmanager
def answering(home: Path, document: object, status: int = 200) -> Iterator[Server]:
    """A home whose daemon answers with this document, or these bytes."""
    body = document if isinstance(document, bytes) else msgspec.json.encode(document)
    with Server(status, body) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        write(home, admin_port=server.server_address[1])
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def write(home: Path, **fields: object) -> None:
    """Leave a daemon.json."""
    (home / DAEMON_FILE).write_bytes(msgspec.json.encode(msgspec.structs.replace(FILE, **fields)))


def test_status_and_report_are_read(home: Path) -> None:
    """The daemon named in the file is asked, and its JSON checked against the schema."""
    with answering(home, STATUS) as server:
        assert get_status(home) == STATUS
    assert server.paths == ["/status"]
    with answering(home, REPORT) as server:
        assert get_report(home) == REPORT
    assert server.paths == ["/report"]


@pytest.mark.parametrize(
    ("run", "path"),
    [
        ("nightly", "/report?run=nightly"),
        ("a b&run=c#d", "/report?run=a+b%26run%3Dc%23d"),
        ("\r\nX: y", "/report?run=%0D%0AX%3A+y"),
        ("ümlaut", "/report?run=%C3%BCmlaut"),
        ("", "/report?run="),
    ],
)
def test_a_run_is_asked_for_by_its_exact_name(home: Path, run: str, path: str) -> None:
    """No character of a name can change the request."""
    with answering(home, REPORT) as server:
        get_report(home, run)
    assert server.paths == [path]


def test_without_a_file_no_daemon_runs(home: Path) -> None:
    """The sentence says how to start one."""
    for ask in (read_daemon_file, get_status, get_report):
        with pytest.raises(NoDaemon, match="pairproxy up"):
            ask(home)


def test_a_port_that_nobody_answers_means_no_daemon(home: Path) -> None:
    """The sentence names the process that was there."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        write(home, admin_port=sock.getsockname()[1])
    with pytest.raises(NoDaemon, match="pid 4711"):
        get_status(home)


def test_a_daemon_that_hangs_is_not_waited_for_for_ever(home: Path) -> None:
    """A connection that says nothing counts as no daemon."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        write(home, admin_port=silent.getsockname()[1])
        with pytest.raises(NoDaemon):
            get_status(home, timeout_s=0.1)


def test_something_else_on_the_port_is_no_daemon(home: Path) -> None:
    """A program that speaks no HTTP took the port of a daemon that is gone."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        write(home, admin_port=other.getsockname()[1])

        def greet() -> None:
            connection, _ = other.accept()
            with connection:
                connection.sendall(b"220 mail ready\r\n")

        thread = threading.Thread(target=greet)
        thread.start()
        with pytest.raises(NoDaemon):
            get_status(home)
        thread.join()


def test_the_daemon_of_another_home_is_not_this_ones(home: Path) -> None:
    """Ports change hands: who answers must be the node of the file."""
    with answering(home, msgspec.structs.replace(STATUS, node="M" * 52)), pytest.raises(NoDaemon):
        get_status(home)
    with answering(home, Report(None, (), {"M" * 52: "bert"})), pytest.raises(NoDaemon):
        get_report(home)


def test_an_error_of_the_daemon_is_its_sentence(home: Path) -> None:
    """An unknown run, for example; what is no JSON gets a sentence of ours."""
    with answering(home, {"error": "There is no run."}, 404), pytest.raises(PairproxyError, match="no run"):
        get_report(home, "x")
    with answering(home, b"<html>", 500), pytest.raises(PairproxyError, match="log says why"):
        get_status(home)


def test_what_is_no_daemon_writes_no_escapes_to_the_terminal(home: Path) -> None:
    """The error of another user's program on the port of a killed daemon is text, and bounded."""
    told = "\x1b]0;title\x07\x1b[2J\u202egone\nPaired." + "x" * 10_000
    with answering(home, {"error": told}, 400), pytest.raises(PairproxyError) as caught:
        get_status(home)
    assert caught.value.sentence.isprintable()
    assert len(caught.value.sentence) == client.SENTENCE_CHARACTERS


@pytest.mark.parametrize("body", [b"{}", b"[]", b'{"version": 1}'])
def test_another_version_is_told_apart(home: Path, body: bytes) -> None:
    """JSON that does not fit asks for a restart instead of showing half of it."""
    with answering(home, body), pytest.raises(PairproxyError, match="another version") as caught:
        get_status(home)
    assert not isinstance(caught.value, NoDaemon)


DEEP = b'{"version": "1", "x": ' + b"[" * 200_000 + b"]" * 200_000 + b"}"
"""Brackets within brackets: no decoder follows them for ever."""


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b"not json"),
        (200, b"\xff"),
        (200, DEEP),
        (404, b"<html>"),
        (404, b'{"error": {"a": 1}}'),
        (404, DEEP),
    ],
    ids=lambda value: str(value)[:20],
)
def test_another_program_on_the_port_of_a_killed_daemon_is_no_daemon(
    home: Path, status: int, body: bytes
) -> None:
    """Ports change hands: what does not answer as a daemon does is not taken for one that fails."""
    with answering(home, body, status), pytest.raises(NoDaemon, match="killed"):
        get_status(home)


def test_a_second_daemon_hears_who_is_there(home: Path) -> None:
    """With the process id once the first has written its file, without it before."""
    assert already_running(home).startswith(f"Another pairproxy runs with the home {home}.")
    write(home)
    assert already_running(home).startswith(f"Another pairproxy (pid 4711) runs with the home {home}.")


CHANGED = TrustChanged("N" * 52, ("A",), (), ())


def test_a_daemon_is_told_that_its_peers_changed(home: Path) -> None:
    """With the token of daemon.json; True once it has read them."""
    with answering(home, CHANGED) as server:
        assert trust_changed(home)
    assert server.posted == [("/trust", "Bearer t0k", b"")]


def test_without_a_daemon_nobody_is_told(home: Path) -> None:
    """No file, nobody on the port, and the daemon of another home: False, no error."""
    assert not trust_changed(home)
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        write(home, admin_port=sock.getsockname()[1])
    assert not trust_changed(home)
    with answering(home, msgspec.structs.replace(CHANGED, node="M" * 52)):
        assert not trust_changed(home)


def test_a_daemon_that_cannot_use_the_files_says_why(home: Path) -> None:
    """Its sentence is the error."""
    with (
        answering(home, {"error": "A file is damaged."}, 500),
        pytest.raises(PairproxyError, match="damaged"),
    ):
        trust_changed(home)


def test_looking_shows_no_token(home: Path) -> None:
    """It goes only with a change."""
    with answering(home, STATUS) as server:
        get_status(home)
        post(home, "/x", b"{}", Status, lambda *_: True)
    assert server.shown == [None, "Bearer t0k"]
    assert server.posted == [("/x", "Bearer t0k", b"{}")]
