import contextlib
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest

from pairproxy.api import watching
from pairproxy.api.client import DAEMON_FILE, NoDaemon
from pairproxy.api.schema import DaemonFile, Status
from pairproxy.api.watching import SILENT, STANDS_STILL, Lost, watch_status
from pairproxy.core.errors import PairproxyError
from tests.support.daemons import until

pytestmark = pytest.mark.timed

NODE = "N" * 52
FILE = DaemonFile(4711, NODE, "anna", 1, None, {})
STATUS = Status("0.1.0", NODE, "anna", 1.0, "fastest-finish", False, 0, (), (), 0, None, {}, None)


def event(status: Status, name: bytes = b"status") -> bytes:
    """As the daemon writes it."""
    return b"event: %b\ndata: %b\n\n" % (name, msgspec.json.encode(status))


class Server(ThreadingHTTPServer):
    """Answers GET /events with ``said``, and then ends the connection, or holds it until it is let go.

    One that holds says ``beat`` each ``beat_s``.
    """

    daemon_threads = True

    def __init__(
        self, said: bytes, *, holds: bool = False, status: int = 200, beat: bytes = b"", beat_s: float = 10.0
    ) -> None:
        self.asked: list[str] = []
        self.is_let_go = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked.append(self.path)
                self.send_response(status)
                self.end_headers()
                self.wfile.write(said)
                with contextlib.suppress(ConnectionError):
                    while holds and not server.is_let_go.wait(beat_s):
                        self.wfile.write(beat)

            def log_message(self, *_: object) -> None:
                """Tests read no access log."""

        super().__init__(("127.0.0.1", 0), Handler)


@contextlib.contextmanager
def answering(
    home: Path,
    said: bytes,
    *,
    holds: bool = False,
    status: int = 200,
    beat: bytes = b"",
    beat_s: float = 10.0,
) -> Iterator[Server]:
    """A home whose daemon says this; one that holds goes on with ``beat``."""
    with Server(said, holds=holds, status=status, beat=beat, beat_s=beat_s) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        file = msgspec.structs.replace(FILE, admin_port=server.server_address[1])
        (home / DAEMON_FILE).write_bytes(msgspec.json.encode(file))
        try:
            yield server
        finally:
            server.is_let_go.set()
            server.shutdown()
            thread.join()


def test_without_a_daemon_the_first_step_says_so(tmp_path: Path) -> None:
    """Nothing is tried again: there was none."""
    with watch_status(tmp_path) as watch, pytest.raises(NoDaemon, match="pairproxy up"):
        next(watch)


def test_each_status_is_told_and_nothing_else(tmp_path: Path) -> None:
    """Comments, the retry field and events of other names pass by."""
    said = b"retry: 1000\n\n:\n\n" + event(STATUS) + b'event: run\ndata: {"run": "x"}\n\n'
    later = msgspec.structs.replace(STATUS, uptime_s=2.0)
    with answering(tmp_path, said + event(later)) as server, watch_status(tmp_path) as watch:
        assert [next(watch), next(watch)] == [STATUS, later]
        assert server.asked == ["/events"]


def test_a_daemon_that_restarts_is_found_again(tmp_path: Path) -> None:
    """Each try that fails is told with how many did; its new port stands in daemon.json, read anew."""
    with watch_status(tmp_path) as watch:
        with answering(tmp_path, event(STATUS)):
            assert next(watch) == STATUS
            assert next(watch) == Lost("The daemon ended the connection. Trying again.", 1)
        lost = next(watch)
        assert isinstance(lost, Lost)
        assert (lost.sentence.split(".")[0], lost.tries) == ("The daemon does not answer", 2)
        assert len(f"No news for 999 s: {lost.sentence}") <= 80  # the live view has one line for it
        (tmp_path / DAEMON_FILE).unlink()
        lost = next(watch)
        assert isinstance(lost, Lost)
        assert (lost.sentence.split(".")[0], lost.tries) == ("No daemon is running here", 3)
        again = msgspec.structs.replace(STATUS, name="bert")
        with answering(tmp_path, event(again)):
            assert next(watch) == again
            lost = next(watch)
            assert isinstance(lost, Lost)
            assert lost.tries == 1


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (event(msgspec.structs.replace(STATUS, node="M" * 52)), 200),
        (b"event: status\ndata: hello\n\n", 200),
        (b'{"error": "too many"}', 503),
        (b"not found", 404),
    ],
)
def test_who_is_not_the_daemon_or_has_no_room_is_asked_again(
    tmp_path: Path, said: bytes, status: int
) -> None:
    """Another program or node at a port of before, and a daemon that too many watch."""
    with answering(tmp_path, said, status=status), watch_status(tmp_path) as watch:
        assert isinstance(next(watch), Lost)


def test_a_daemon_that_too_many_watch_says_so_itself(tmp_path: Path) -> None:
    """Starting one would not help."""
    said = msgspec.json.encode({"error": "16 watch already.\x07 Close one."})
    with answering(tmp_path, said, status=503), watch_status(tmp_path) as watch:
        assert next(watch) == Lost("16 watch already. Close one.", 1)


def test_a_daemon_of_another_version_is_an_error(tmp_path: Path) -> None:
    """Trying again does not mend it."""
    with (
        answering(tmp_path, b"event: status\ndata: {}\n\n"),
        watch_status(tmp_path) as watch,
        pytest.raises(PairproxyError, match="another version"),
    ):
        next(watch)


@pytest.mark.parametrize(
    ("beat", "sentence"),
    [(b"", SILENT), (b":\n\n", STANDS_STILL), (b"event: run\ndata: {}\n\n", STANDS_STILL)],
)
def test_a_picture_that_stands_still_is_not_taken_for_live(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beat: bytes, sentence: str
) -> None:
    """One status and then silence, or only signs of life: that is told, and the daemon is asked again."""
    monkeypatch.setattr(watching, "OLD_S", 0.5)
    beat_s = 0.05 if beat else 10.0
    with (
        answering(tmp_path, event(STATUS), holds=True, beat=beat, beat_s=beat_s) as server,
        watch_status(tmp_path) as watch,
    ):
        assert [next(watch) for _ in range(4)] == [STATUS, Lost(sentence, 1)] * 2
        assert server.asked == ["/events"] * 2
    assert len(f"No news for 999 s: {sentence}") <= 80


def test_signs_of_life_between_two_statuses_are_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An idle daemon tells seldom; the time runs anew with each status."""
    monkeypatch.setattr(watching, "OLD_S", 2.0)
    with (
        answering(tmp_path, event(STATUS), holds=True, beat=b":\n\n" + event(STATUS), beat_s=0.5),
        watch_status(tmp_path) as watch,
    ):
        assert [next(watch) for _ in range(6)] == [STATUS] * 6


@pytest.mark.parametrize("takes", [True, False])
def test_a_port_that_answers_nothing_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, takes: bool
) -> None:
    """A daemon that is stopped, or whose host slept: the system takes connections in its name."""
    monkeypatch.setattr(watching, "OLD_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as port, contextlib.ExitStack() as stack:
        file = msgspec.structs.replace(FILE, admin_port=port.getsockname()[1])
        (tmp_path / DAEMON_FILE).write_bytes(msgspec.json.encode(file))
        if takes:
            taking = threading.Thread(target=lambda: stack.enter_context(port.accept()[0]))
            taking.start()
            stack.callback(taking.join)
        with watch_status(tmp_path) as watch:
            assert next(watch) == Lost(SILENT, 1)


@pytest.mark.parametrize("is_silent", [True, False])
def test_closing_it_ends_a_step_that_waits(tmp_path: Path, is_silent: bool) -> None:
    """From another thread: of a daemon that says nothing, and between two tries."""
    seen: list[Status | Lost] = []
    with answering(tmp_path, event(STATUS), holds=is_silent):
        watch = watch_status(tmp_path)
        thread = threading.Thread(target=lambda: seen.extend(watch))
        thread.start()
        until(lambda: seen if is_silent else len(seen) > 3, "it waits")
        watch.close()
        thread.join(5.0)
        assert not thread.is_alive()
        assert next(watch, None) is None
