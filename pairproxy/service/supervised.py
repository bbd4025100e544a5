"""What a daemon and the service manager that started it tell each other.

The protocol is systemd's, which others speak too: sockets come by LISTEN_FDS (sd_listen_fds(3)), and all that
is said goes by datagrams to NOTIFY_SOCKET (sd_notify(3)). Sockets that were given to the manager with keep()
come back at the next start, also after kill -9: connections wait in them meanwhile instead of being refused.
"""

import asyncio
import contextlib
import errno
import logging
import os
import signal
import socket
import time
from array import array
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence

from pairproxy.config import Settings

_log = logging.getLogger(__name__)

FIRST = 3  # SD_LISTEN_FDS_START of <systemd/sd-daemon.h>
MOST = 64  # sockets taken over; a daemon has two for each kind of engine. More are closed
STATUS_CHARACTERS = 512  # of the text in `systemctl status`: a line or two
FAILED_S = 5.0  # the manager starts it again at once: settings with a fault must not keep a core busy
FEEDS = 3  # signs of life in the time after which the manager takes the daemon for hung

_OF_THE_PROTOCOL = (
    "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PIDFDID", "NOTIFY_SOCKET",
    "WATCHDOG_PID", "WATCHDOG_USEC",
)  # fmt: skip


class Supervisor:
    """Whoever started this daemon and looks after it; one that is not there takes all in silence.

    No method waits or raises: what the manager does not take is lost, and logged once.
    """

    def __init__(self, told: Mapping[str, str] | None = None) -> None:
        """``told``: the environment that the manager gave; None: there is no manager."""
        told = told or {}
        self._address = _address(told.get("NOTIFY_SOCKET", ""))
        self._inherited = _sockets(told)
        self._taken: set[tuple[str, int]] = set()  # addresses
        self._hung_after_s = _hung_after_s(told)
        self._was_lost = False

    @classmethod
    def here(cls, environment: MutableMapping[str, str] | None = None) -> "Supervisor":
        """The one of this process. The variables are removed: they are not meant for children of ours."""
        mine = os.environ if environment is None else environment
        told = {name: mine.pop(name) for name in _OF_THE_PROTOCOL if name in mine}
        return cls(told)

    @property
    def is_there(self) -> bool:
        """Whether a manager listens to what is told here."""
        return self._address is not None

    def inherited(self) -> list[tuple[str, socket.socket]]:
        """The listening sockets that were passed, each with its name; whoever asks owns them. Once only.

        They come from the manager's store (see keep()) or from a unit of sockets. Look at each one's
        address before using it, and close those that do not fit.
        """
        given, self._inherited = self._inherited, []
        return given

    def take(self, host: str, port: int) -> socket.socket | None:
        """The inherited socket that is bound to this very address, or None; whoever asks owns it."""
        for place, (_, sock) in enumerate(self._inherited):
            if sock.getsockname()[:2] == (host, port):
                self._taken.add((host, port))
                return self._inherited.pop(place)[1]
        return None

    def refuse_rest(self) -> None:
        """Close for good the inherited sockets that nobody took: else their callers would wait for ever."""
        for name, sock in self.inherited():
            # The same socket may come twice: from a unit of sockets, and from the store.
            if sock.getsockname()[:2] not in self._taken:
                self.drop(name)
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def keep(self, name: str, sock: socket.socket) -> bool:
        """Give the manager a duplicate to keep for the next life of this daemon; whether it was told.

        ``name``: one for each address, as "front-11434-v4"; without colons. To keep one that it has already
        changes nothing. Connections are taken in as long as the duplicate is kept, so see drop().
        """
        return self._tell({"FDSTORE": "1", "FDNAME": name}, [sock.fileno()])

    def drop(self, name: str) -> bool:
        """Let the manager close what it keeps by this name; whether it was told.

        It does so a moment later. To refuse connections at once, also shut the socket down (SHUT_RDWR): on
        Linux that ends its listening for every holder.
        """
        return self._tell({"FDSTOREREMOVE": "1", "FDNAME": name})

    def ready(self, status: str = "") -> None:
        """The daemon serves (again, after reloading()). ``status``: one line for a person; "": as it was."""
        self._tell({"READY": "1"} | ({"STATUS": _one_line(status)} if status else {}))

    def status(self, status: str) -> None:
        """What the daemon is at, one line for a person."""
        self._tell({"STATUS": _one_line(status)})

    def reloading(self) -> None:
        """Settings are being read anew; say ready() afterwards, whatever came of it."""
        self._tell({"RELOADING": "1", "MONOTONIC_USEC": str(time.monotonic_ns() // 1000)})

    def hears_of(self, read: Callable[[], Settings]) -> Callable[[], Settings]:
        """``read``, with reloading() before it and ready() after it."""

        def told() -> Settings:
            self.reloading()
            try:
                return read()
            finally:
                self.ready()

        return told

    @contextlib.contextmanager
    def hears_of_failure(self) -> Iterator[None]:
        """Where what is inside fails, tell the manager why, and end no sooner than after FAILED_S.

        For what happens before and around the daemon's loop: it waits.
        """
        try:
            yield
        except Exception as error:
            if self._tell({"STATUS": _one_line(_sentence(error)), "ERRNO": str(errno.EINVAL)}):
                for number in (signal.SIGINT, signal.SIGTERM):  # a loop that was left may have kept them
                    signal.signal(number, signal.SIG_DFL)
                time.sleep(FAILED_S)
            raise

    def stopping(self) -> None:
        """The daemon takes no new work and ends soon."""
        self._tell({"STOPPING": "1", "STATUS": "stopping"})

    async def feed(self) -> None:
        """Give signs of life as long as the loop turns, if the manager wants any; until cancelled."""
        if self._hung_after_s is None:
            return
        while True:
            self._tell({"WATCHDOG": "1"})
            await asyncio.sleep(self._hung_after_s / FEEDS)

    def _tell(self, words: Mapping[str, str], descriptors: Sequence[int] = ()) -> bool:
        if self._address is None:
            return False
        text = "\n".join(f"{key}={value}" for key, value in words.items()).encode()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", descriptors))] if descriptors else []
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as speaker:
                speaker.setblocking(False)
                speaker.sendmsg([text], rights, 0, self._address)
        except OSError as error:
            if not self._was_lost:
                _log.warning("the service manager does not listen: %s", error.strerror or error)
            self._was_lost = True
            return False
        return True


def _address(text: str) -> str | bytes | None:
    """Where to send: a path, or a name of Linux's own ("@" stands for its first byte, 0)."""
    if not hasattr(socket, "AF_UNIX"):
        return None
    if text.startswith("/"):
        return text
    if text.startswith("@"):
        return b"\0" + text[1:].encode()
    return None  # vsock: for virtual machines, not for us


def _sockets(told: Mapping[str, str]) -> list[tuple[str, socket.socket]]:
    """The listening stream sockets among the descriptors that were passed; others are closed."""
    count = _whole(told.get("LISTEN_FDS"))
    if not count or _whole(told.get("LISTEN_PID")) != os.getpid():
        return []
    names = told.get("LISTEN_FDNAMES", "").split(":")
    found = []
    for place in range(count):
        sock = _listening(FIRST + place) if place < MOST else None
        if sock is None:
            _close(FIRST + place)
        else:
            found.append((names[place] if place < len(names) else "", sock))
    return found


def _listening(descriptor: int) -> socket.socket | None:
    """A descriptor as a socket that takes connections, or None, and it is left open."""
    try:
        sock = socket.socket(fileno=descriptor)
    except OSError:  # closed, or no socket
        return None
    try:
        is_ours = sock.type == socket.SOCK_STREAM and sock.family in (socket.AF_INET, socket.AF_INET6)
        if is_ours and sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            sock.set_inheritable(False)
            sock.setblocking(False)
            return sock
    except OSError:
        pass
    sock.detach()
    return None


def _close(descriptor: int) -> None:
    with contextlib.suppress(OSError):
        os.close(descriptor)


def _hung_after_s(told: Mapping[str, str]) -> float | None:
    """How long the manager waits for a sign of life, in seconds; None: for ever."""
    whose = _whole(told.get("WATCHDOG_PID"))
    microseconds = _whole(told.get("WATCHDOG_USEC"))
    return microseconds / 1e6 if microseconds and whose in (None, os.getpid()) else None


def _whole(text: str | None) -> int | None:
    """A number without a sign, or None for anything else."""
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 20 else None


def _sentence(error: BaseException) -> str:
    """What an error says to a person; of a group, what the first of it says."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(getattr(error, "sentence", "")) or f"It failed ({type(error).__name__}); its log says where."


def _one_line(text: str) -> str:
    return " ".join(text.split())[:STATUS_CHARACTERS]
