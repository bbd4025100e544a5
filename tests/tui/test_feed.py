import threading
from collections.abc import Iterator

import msgspec

from pairproxy.api.client import NoDaemon
from pairproxy.api.schema import Status
from pairproxy.tui.feed import Feed
from tests.support.daemons import until
from tests.support.statuses import node, status

FIRST = status(node())
SECOND = msgspec.structs.replace(FIRST, uptime_s=91.0)


def test_it_goes_on_with_what_is_told() -> None:
    """Each status has a number of its own, so that one sees that it is new."""
    ends = threading.Event()

    def watch() -> Iterator[Status]:
        yield SECOND
        ends.wait(20.0)

    feed = Feed(FIRST, watch)
    assert (feed.news.status, feed.news.number) == (FIRST, 0)
    feed.start()
    until(lambda: feed.news.number == 1, "the second status", 5.0)
    assert (feed.news.status, feed.news.lost_at) == (SECOND, None)
    feed.close()
    ends.set()


def test_a_daemon_that_stops_is_told_and_one_that_comes_back_is_heard() -> None:
    """The last status stays, with the time since when it is old and why, until a new one comes."""
    tries: list[int] = []
    comes_back = threading.Event()

    def watch() -> Iterator[Status]:
        tries.append(1)
        if not comes_back.is_set():
            raise NoDaemon("No daemon is running here.")
        yield SECOND
        threading.Event().wait(20.0)

    feed = Feed(FIRST, watch, now=lambda: 7.0)
    feed.start()
    until(lambda: feed.news.lost_at, "it is told", 5.0)
    assert (feed.news.status, feed.news.lost_at, feed.news.problem) == (
        FIRST,
        7.0,
        "No daemon is running here.",
    )
    comes_back.set()
    until(lambda: feed.news.number == 1, "it is heard", 5.0)
    assert (feed.news.lost_at, len(tries)) == (None, 2)
    feed.close()


def test_an_end_without_an_error_is_one_too() -> None:
    """A daemon that stops ends what it tells."""
    feed = Feed(FIRST, lambda: iter([SECOND]), now=lambda: 7.0)
    feed.start()
    until(lambda: feed.news.lost_at, "it is told", 5.0)
    assert (feed.news.status, feed.news.problem) == (SECOND, "The daemon stopped.")
    feed.close()
