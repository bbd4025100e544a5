"""Asking a running daemon. Standard library only: a command must start in a moment.

What asks is imported as it does: the daemon needs this module for what its files are called.
"""

from collections.abc import Callable, Generator
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, urlencode

import msgspec

from pairproxy.api.advice import AdviceReport
from pairproxy.api.models import ModelMatrix
from pairproxy.api.offering import DrainAnswer, DrainWish
from pairproxy.api.ports import PortsAnswer, PortWish
from pairproxy.api.runs import Runs
from pairproxy.api.schema import (
    DaemonFile,
    Explanation,
    KeysChanged,
    Report,
    SettingsReread,
    Status,
    TrustChanged,
)
from pairproxy.api.settings import SettingsInForce
from pairproxy.core.errors import PairproxyError

DAEMON_FILE = "daemon.json"
LOCK_FILE = "daemon.lock"  # held by the daemon of a home for as long as it runs
TIMEOUT_S = 30.0  # the daemon answers from memory, but reckons some seconds at a run of hundreds of requests
ANSWER_BYTES = 16 * 1024 * 1024
LINE_BYTES = 64 * 1024  # of what is told line by line
SENTENCE_CHARACTERS = 2000  # of an error; ours name a file or two

T = TypeVar("T")

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What bytes that somebody else wrote do to who decodes them; the last is of brackets within brackets."""


class NoDaemon(PairproxyError):
    """No daemon is running for this home directory."""


def read_daemon_file(home: Path) -> DaemonFile:
    """What the daemon of ``home`` left about itself. Raises NoDaemon."""
    try:
        return msgspec.json.decode((home / DAEMON_FILE).read_bytes(), type=DaemonFile)
    except (OSError, *UNREADABLE):
        raise NoDaemon("No daemon is running here. Start one with `pairproxy up`.") from None


def already_running(home: Path) -> str:
    """The sentence for a second daemon of ``home``: there can be only one."""
    try:
        who = f" (pid {read_daemon_file(home).pid})"
    except NoDaemon:  # it is still starting
        who = ""
    return f"Another pairproxy{who} runs with the home {home}. Stop it, or give this one another --home."


def get_status(home: Path, timeout_s: float = TIMEOUT_S) -> Status:
    """Fetch /status. Raises NoDaemon, PairproxyError."""
    return _get(home, "/status", Status, lambda status, node: status.node == node, timeout_s)


def get_report(home: Path, run: str | None = None, *, with_recording: bool = False) -> Report:
    """Fetch /report: the last run, or the named one. Raises NoDaemon, PairproxyError."""
    asked = ({} if run is None else {"run": run}) | ({"recording": "true"} if with_recording else {})
    path = f"/report?{urlencode(asked)}" if asked else "/report"
    return _get(home, path, Report, lambda report, node: node in report.names)


def get_explanation(home: Path, request: str) -> Explanation:
    """Fetch /requests/ID, by an id, the beginning of one, or `last`. Raises NoDaemon, PairproxyError."""
    path = f"/requests/{quote(request, safe='')}"
    return _get(home, path, Explanation, lambda told, node: node in told.names)


def get_models(home: Path, timeout_s: float = TIMEOUT_S) -> ModelMatrix:
    """Fetch /models: which node holds which model. Raises NoDaemon, PairproxyError."""
    return _get(home, "/models", ModelMatrix, lambda told, node: told.node == node, timeout_s)


def get_advice(home: Path, run: str | None = None) -> AdviceReport:
    """Fetch /advice: on the last run, or on the named one. Raises NoDaemon, PairproxyError."""
    path = "/advice" if run is None else f"/advice?{urlencode({'run': run})}"
    return _get(home, path, AdviceReport, lambda advice, node: advice.node == node)


def get_runs(home: Path, since_unix: float, limit: int) -> Runs:
    """Fetch /runs: the last ``limit`` that started then or later. Raises NoDaemon, PairproxyError."""
    path = f"/runs?{urlencode({'since': since_unix, 'limit': limit})}"
    return _get(home, path, Runs, lambda runs, node: runs.node == node)


def get_settings(home: Path) -> SettingsInForce:
    """Fetch /config: the settings that the daemon goes by. Raises NoDaemon, PairproxyError."""
    return _get(home, "/config", SettingsInForce, lambda told, node: told.node == node)


def trust_changed(home: Path) -> bool:
    """Let the daemon of ``home`` read its peers' files anew; False if none runs.

    When this returns True, a new peer is believed and one that was forgotten is cut off. Raises
    PairproxyError if the daemon cannot use the files.
    """
    try:
        post(home, "/trust", b"", TrustChanged, lambda told, node: told.node == node)
    except NoDaemon:
        return False
    return True


def keys_changed(home: Path) -> KeysChanged | None:
    """Let the daemon of ``home`` read the keys of its clients anew; None if none runs.

    When this returns, a new key is taken and who shows one that was revoked is cut off. Raises
    PairproxyError if the daemon cannot use the file, or cannot open its port.
    """
    try:
        return post(home, "/keys", b"", KeysChanged, lambda told, node: told.node == node)
    except NoDaemon:
        return None


def drain_wish(home: Path, wish: DrainWish) -> DrainAnswer:
    """Tell the daemon of ``home`` whether to take new work of peers. Raises NoDaemon, PairproxyError."""
    return post(home, "/drain", msgspec.json.encode(wish), DrainAnswer, lambda told, node: told.node == node)


def settings_changed(home: Path) -> SettingsReread:
    """Let the daemon of ``home`` read its settings anew. Raises NoDaemon, PairproxyError."""
    return post(home, "/settings", b"", SettingsReread, lambda told, node: told.node == node)


def ports_wish(home: Path, wish: PortWish) -> PortsAnswer:
    """Tell the daemon of ``home`` what is wanted of its client ports. Raises NoDaemon, PairproxyError."""
    return post(home, "/ports", msgspec.json.encode(wish), PortsAnswer, lambda told, node: told.node == node)


def post(home: Path, path: str, body: bytes, kind: type[T], is_of: Callable[[T, str], bool]) -> T:
    """Change something in the daemon of ``home``: send ``body``, return its answer, of type ``kind``.

    ``is_of`` tells whether an answer is that of a node. Raises NoDaemon, PairproxyError.
    """
    return _ask(home, "POST", path, body, kind, is_of)


def follow(
    home: Path, path: str, wish: object, kind: type[T], is_of: Callable[[T, str], bool]
) -> Generator[T, None, None]:
    """Ask the daemon of ``home`` for something that takes long; yields what it tells, line by line.

    Who closes this ends it there. Raises NoDaemon, PairproxyError.
    """
    from http.client import HTTPConnection, HTTPException, IncompleteRead

    daemon = read_daemon_file(home)
    fields = {"Authorization": f"Bearer {daemon.token}"}
    gone = NoDaemon(f"The daemon of {home} does not answer. Start it with `pairproxy up`.")
    connection = HTTPConnection(daemon.admin_host, daemon.admin_port, timeout=TIMEOUT_S)
    try:
        connection.request("POST", path, msgspec.json.encode(wish), fields)
        response = connection.getresponse()
        if response.status != 200:
            raise error_of(response.status, response.read(ANSWER_BYTES)) or gone
        while line := response.readline(LINE_BYTES):
            told = decoded(line, kind, gone)
            if not is_of(told, daemon.node):
                raise gone
            yield told
    except TimeoutError:
        raise PairproxyError(f"The daemon told nothing for {TIMEOUT_S:.0f} s. Its log says why.") from None
    except IncompleteRead:
        return  # it stopped in the middle: whoever follows sees that the last line is missing
    except (OSError, HTTPException):
        raise gone from None
    finally:
        connection.close()


def _get(
    home: Path, path: str, kind: type[T], is_of: Callable[[T, str], bool], timeout_s: float = TIMEOUT_S
) -> T:
    return _ask(home, "GET", path, None, kind, is_of, timeout_s)


def _ask(
    home: Path,
    method: str,
    path: str,
    body: bytes | None,
    kind: type[T],
    is_of: Callable[[T, str], bool],
    timeout_s: float = TIMEOUT_S,
) -> T:
    """Ask the daemon of ``home``; ``is_of`` tells whether an answer is that of a node: ports change hands."""
    from http.client import HTTPConnection, HTTPException

    daemon = read_daemon_file(home)
    fields = {} if body is None else {"Authorization": f"Bearer {daemon.token}"}
    gone = NoDaemon(
        f"The daemon of {home} does not answer: it was killed, or it hangs (it had pid {daemon.pid}). "
        "Start it with `pairproxy up`."
    )
    connection = HTTPConnection(daemon.admin_host, daemon.admin_port, timeout=timeout_s)
    try:
        connection.request(method, path, body, fields)
        response = connection.getresponse()
        answered = response.read(ANSWER_BYTES)
    except (OSError, HTTPException):
        raise gone from None
    finally:
        connection.close()
    if response.status != 200:
        raise error_of(response.status, answered) or gone
    answer = decoded(answered, kind, gone)
    if not is_of(answer, daemon.node):
        raise gone
    return answer


def decoded(told: bytes, kind: type[T], gone: NoDaemon) -> T:
    """What a daemon told. Raises ``gone`` for another program, PairproxyError for another version of ours."""
    try:
        return msgspec.json.decode(told, type=kind)
    except msgspec.ValidationError:
        raise PairproxyError(
            "The daemon is of another version than this command. Restart it with `pairproxy up`."
        ) from None
    except UNREADABLE:  # no JSON: another program got the port of a daemon that was killed
        raise gone from None


def error_of(status: int, body: bytes) -> PairproxyError | None:
    """What a daemon answered; None: no daemon of ours does."""
    try:
        sentence = msgspec.json.decode(body, type=dict[str, str])["error"]
        # Whoever got the port of a daemon that was killed must not write to this terminal as it likes.
        return PairproxyError("".join(one for one in sentence if one.isprintable())[:SENTENCE_CHARACTERS])
    except (*UNREADABLE, KeyError):
        return PairproxyError("The daemon could not answer. Its log says why.") if status >= 500 else None
