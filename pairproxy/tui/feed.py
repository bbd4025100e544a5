"""Fresh statuses, read in a thread of their own: the page goes on when the daemon does not."""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from pairproxy.api.schema import Status
from pairproxy.api.watching import OLD_S, SILENT, Lost
from pairproxy.core.errors import PairproxyError

_AGAIN = "Start this command again, and please report it."


@dataclass(frozen=True, slots=True)
class News:
    """The last status, how many came before it, and when (time.monotonic) it did; why no more come."""

    status: Status
    number: int
    at: float
    problem: str = ""

    def banner(self, at: float) -> str:
        """What is to be said now, ``at``: nothing while it is fresh. Its age counts, whatever is amiss."""
        age_s = at - self.at
        if not self.problem and age_s <= OLD_S:
            return ""
        return f"No news for {age_s:.0f} s: {self.problem or SILENT}"


class Feed:
    """Keeps ``news`` as fresh as what is ``seen`` (api.watching)."""

    def __init__(
        self, first: Status, seen: Iterable[Status | Lost], now: Callable[[], float] = time.monotonic
    ) -> None:
        self._seen = seen
        self._now = now
        self._news = News(first, 0, now())
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
                    self._news = News(one, before.number + 1, self._now())
                else:
                    self._news = replace(before, problem=one.sentence)
        except PairproxyError as error:
            self._error = error
        except Exception as error:  # noqa: BLE001 whatever it is, a picture that stands still must say so
            self._error = PairproxyError(
                f"Reading what the daemon tells failed ({type(error).__name__}). {_AGAIN}"
            )
