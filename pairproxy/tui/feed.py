"""Fresh statuses, read in a thread of their own: the page goes on when the daemon does not."""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pairproxy.api.schema import Status
from pairproxy.api.watching import Lost
from pairproxy.core.errors import PairproxyError


@dataclass(frozen=True, slots=True)
class News:
    """The last status and how many came before it; since when (time.monotonic) no more come, and why."""

    status: Status
    number: int
    lost_at: float | None = None
    problem: str = ""


class Feed:
    """Keeps ``news`` as fresh as what is ``seen`` (api.watching)."""

    def __init__(
        self, first: Status, seen: Iterable[Status | Lost], now: Callable[[], float] = time.monotonic
    ) -> None:
        self._seen = seen
        self._now = now
        self._news = News(first, 0)
        self._error: PairproxyError | None = None

    @property
    def news(self) -> News:
        """What is known now. Raises the PairproxyError after which there will be none."""
        if self._error is not None:
            raise self._error
        return self._news

    def start(self) -> None:
        """Begin to read, until what is seen ends. The thread ends with the process at the latest."""
        threading.Thread(target=self._read, name="status", daemon=True).start()

    def _read(self) -> None:
        try:
            for one in self._seen:
                before = self._news
                if isinstance(one, Status):
                    self._news = News(one, before.number + 1)
                    continue
                since = self._now() if before.lost_at is None else before.lost_at
                self._news = News(before.status, before.number, since, one.sentence)
        except PairproxyError as error:
            self._error = error
