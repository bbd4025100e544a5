"""Fresh statuses, read in a thread of their own: the page goes on when the daemon does not."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pairproxy.api.schema import Status
from pairproxy.core.errors import PairproxyError

RETRY_S = 1.0  # between two tries to reach a daemon that is gone: it starts in two to four


@dataclass(frozen=True, slots=True)
class News:
    """The last status, the how manieth it is, and since when (time.monotonic) none comes, and why."""

    status: Status
    number: int
    lost_at: float | None = None
    problem: str = ""


class Feed:
    """Keeps ``news`` fresh from ``watch()``, which is called again when it ends or fails."""

    def __init__(
        self, first: Status, watch: Callable[[], Iterator[Status]], now: Callable[[], float] = time.monotonic
    ) -> None:
        self._watch = watch
        self._now = now
        self._news = News(first, 0)
        self._closed = threading.Event()

    @property
    def news(self) -> News:
        """What is known now."""
        return self._news

    def start(self) -> None:
        """Begin to read. The thread ends with the process: what it waits for may never come."""
        threading.Thread(target=self._read, name="status", daemon=True).start()

    def close(self) -> None:
        """Read no more."""
        self._closed.set()

    def _read(self) -> None:
        while not self._closed.is_set():
            problem = "The daemon stopped."
            try:
                for status in self._watch():
                    self._news = News(status, self._news.number + 1)
                    if self._closed.is_set():
                        return
            except PairproxyError as error:
                problem = error.sentence
            before = self._news
            since = self._now() if before.lost_at is None else before.lost_at
            self._news = News(before.status, before.number, since, problem)
            self._closed.wait(RETRY_S)
