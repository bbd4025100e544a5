"""Who may use the key port: the one place where a key is looked for, compared and taken out of a request.

A key comes as SDKs send theirs: ``Authorization: Bearer``, ``x-api-key``, ``api-key``. None of these headers
goes on to anybody, whether what it held was right or wrong.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping

from pairproxy.core.errors import NotAuthenticated, TooManyFailures
from pairproxy.security.client_keys import ClientKey, judged
from pairproxy.security.peer_record import printable

_log = logging.getLogger(__name__)

WITH_KEY = frozenset({"authorization", "x-api-key", "api-key"})
"""Headers in which a key may come, in lower case."""
_ALSO_DROPPED = frozenset({"cookie", "proxy-authorization", "forwarded"})
"""Secrets of others, and tales of a proxy."""
MOST_VALUES = 4  # of those headers that are looked at; SDKs send one
FAILURES = 10  # of one address in WINDOW_S; a program that was given a wrong key tries a few times
WINDOW_S = 60.0
MOST_TOLD = 16  # addresses in the log in WINDOW_S; one machine can have any number of IPv6's
MOST_ADDRESSES = 1024  # that are counted; the one longest counted gives way


class KeyGate:
    """Lets in who shows a key, and counts who does not."""

    def __init__(self, find: Callable[[str], ClientKey | None], now: Callable[[], float]) -> None:
        """``find`` compares with every key there is; ``now`` in seconds of a steady clock."""
        self._find = find
        self._now = now
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()  # address: (how many, since when)
        self._told = 0, now()  # how many addresses since when

    def admit(self, values: Iterable[str], address: str) -> ClientKey:
        """The key among what a request of ``address`` shows, or raise.

        A right key is let in however many wrong ones came from its address: all containers of a machine may
        share one, and 160 bits are not guessed. Raises NotAuthenticated, TooManyFailures.
        """
        shown = [*dict.fromkeys(values)][:MOST_VALUES]
        found = {key for one in shown if (key := self._find(one)) is not None}
        if len(found) == 1:
            return found.pop()
        self._count(address)
        if found:
            raise NotAuthenticated("Several keys were shown. Send one of them.")
        if any(judged(one) == "mistyped" for one in shown):
            raise NotAuthenticated(
                "The key that was sent is not whole: a character is wrong, missing or too many."
                " Copy it again, or make another with `pairproxy keys add`."
            )
        raise NotAuthenticated(_NOT_KNOWN if shown else _NO_KEY)

    def _count(self, address: str) -> None:
        """Remember a failure. Raises TooManyFailures where there were too many in the last minute."""
        now = self._now()
        count, since = self._failures.pop(address, (0, now))
        if now - since >= WINDOW_S:
            count, since = 0, now
        self._failures[address] = count + 1, since
        if len(self._failures) > MOST_ADDRESSES:
            self._failures.popitem(last=False)
        if count == 0:  # once in a window and address
            self._tell(address, now)
        if count >= FAILURES:
            left_s = max(int(since + WINDOW_S - now), 1)
            raise TooManyFailures(
                "Too many requests without a right key came from this address. Mend the key; wait.",
                retry_after_s=left_s,
            )

    def _tell(self, address: str, now: float) -> None:
        told, since = self._told
        if now - since >= WINDOW_S:
            told, since = 0, now
        self._told = told + 1, since
        if told < MOST_TOLD:
            _log.warning(
                "a program at %s asks without a key that is known here; `pairproxy keys list` tells those"
                " there are",
                printable(address),
            )
        elif told == MOST_TOLD:
            _log.warning("programs at many more addresses ask without a key that is known here")


def shown_in(fields: Iterable[tuple[str, str]]) -> list[str]:
    """What may be keys in a request's headers."""
    found = []
    for name, text in fields:
        lower = name.lower()
        if lower == "authorization":
            scheme, _, token = text.strip().partition(" ")
            if scheme.lower() == "bearer" and token.strip():
                found.append(token.strip())
        elif lower in WITH_KEY and text.strip():
            found.append(text.strip())
    return found


def without_keys(fields: Mapping[str, str], host: str) -> list[tuple[str, str]]:
    """A request's headers as others may see them. ``host``: the engine's, which minds what it is called."""
    dropped = WITH_KEY | _ALSO_DROPPED | {"host"}
    kept = [
        (name, text)
        for name, text in fields.items()
        if name.lower() not in dropped and not name.lower().startswith("x-forwarded-")
    ]
    return [("Host", host), *kept]


_NO_KEY = (
    "This port needs a key: send `Authorization: Bearer ppk_...`."
    " `pairproxy keys add NAME` makes one on the machine that you call."
)
_NOT_KNOWN = (
    "The key that was sent is not known here. It may have been revoked: `pairproxy keys list` tells the names"
    " of those there are, `pairproxy keys add NAME` makes one."
)
