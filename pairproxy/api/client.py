"""Asking a running daemon. Standard library only: a command must start in a moment."""

import http.client
from pathlib import Path
from typing import TypeVar

import msgspec

from pairproxy.api.schema import DaemonFile, Report, Status
from pairproxy.core.errors import PairproxyError

DAEMON_FILE = "daemon.json"
TIMEOUT_S = 5.0  # the daemon answers from memory
ANSWER_BYTES = 16 * 1024 * 1024

T = TypeVar("T")


class NoDaemon(PairproxyError):
    """No daemon is running for this home directory."""


def read_daemon_file(home: Path) -> DaemonFile:
    """What the daemon of ``home`` left about itself. Raises NoDaemon."""
    try:
        return msgspec.json.decode((home / DAEMON_FILE).read_bytes(), type=DaemonFile)
    except (OSError, msgspec.DecodeError):
        raise NoDaemon("No daemon is running here. Start one with `pairproxy up`.") from None


def get_status(home: Path) -> Status:
    """Fetch /status. Raises NoDaemon, PairproxyError."""
    return _get(home, "/status", Status)


def get_report(home: Path, run: str | None = None) -> Report:
    """Fetch /report: the last run, or the named one. Raises NoDaemon, PairproxyError."""
    return _get(home, f"/report?run={run}" if run else "/report", Report)


def _get(home: Path, path: str, kind: type[T]) -> T:
    daemon = read_daemon_file(home)
    connection = http.client.HTTPConnection("127.0.0.1", daemon.admin_port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read(ANSWER_BYTES)
    except OSError:
        raise NoDaemon(
            f"The daemon of {home} (pid {daemon.pid}) does not answer. Start it with `pairproxy up`."
        ) from None
    except http.client.HTTPException:
        raise PairproxyError(f"Something else answers on the admin port {daemon.admin_port}.") from None
    finally:
        connection.close()
    if response.status != 200:
        raise PairproxyError(_reason(body))
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, msgspec.ValidationError):
        raise PairproxyError(
            "The daemon is of another version than this command. Restart it with `pairproxy up`."
        ) from None


def _reason(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=dict[str, str])["error"]
    except (msgspec.DecodeError, msgspec.ValidationError, KeyError):
        return "The daemon could not answer. Its log says why."
