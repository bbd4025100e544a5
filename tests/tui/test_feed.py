import threading
from collections.abc import Iterator

import msgspec
import pytest

from pairproxy.api.schema import Status
from pairproxy.api.watching import OLD_S, SILENT, Lost
from pairproxy.core.errors import PairproxyError
from pairproxy.tui.feed import Feed
from tests.support.daemons import until
from tests.support.statuses import node, status

FIRST = status(node())
SECOND = msgspec.structs.replace(FIRST, uptime_s=91.0)


def test_it_goes_on_with_what_is_told() -> None:
    """Each status has a number of its own, so that one sees that it is new."""
    feed = Feed(FIRST, iter([SECOND]))
    assert (feed.news.status, feed.news.number) == (FIRST, 0)
    feed.start()
    until(lambda: feed.news.number == 1, "the second status")
    assert (feed.news.status, feed.news.problem) == (SECOND, "")


def test_a_daemon_that_stops_is_told_and_one_that_comes_back_is_heard() -> None:
    """The last status stays, with the time since when it is old and why, until a new one comes."""
    times = iter((7.0, 20.0))
    comes_back = threading.Event()

    def seen() -> Iterator[Status | Lost]:
        yield Lost("It stopped.", 1)
        yield Lost("It is away.", 2)
        comes_back.wait(20.0)
        yield SECOND

    feed = Feed(FIRST, seen(), now=lambda: next(times))
    feed.start()
    until(lambda: feed.news.problem == "It is away.", "it is told")
    assert feed.news.status == FIRST
    assert feed.news.banner(17.4) == "No news for 10 s: It is away."
    comes_back.set()
    until(lambda: feed.news.number == 1, "it is heard")
    assert (feed.news.at, feed.news.banner(21.0)) == (20.0, "")


def test_a_picture_grows_old_by_itself() -> None:
    """Also where who reads would never come back: its age is all that counts."""
    feed = Feed(FIRST, iter([]), now=lambda: 5.0)
    assert feed.news.banner(5.0 + OLD_S) == ""
    assert feed.news.banner(6.0 + OLD_S) == f"No news for {OLD_S + 1:.0f} s: {SILENT}"


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (PairproxyError("The daemon is of another version."), "another version"),
        (ZeroDivisionError("a prompt"), r"failed \(ZeroDivisionError\)\. Start this command again"),
    ],
)
def test_what_trying_again_does_not_mend_is_raised(fault: Exception, told: str) -> None:
    """To whoever looks next; also a fault of ours, which must not leave a picture that stands still."""

    def seen() -> Iterator[Status | Lost]:
        yield SECOND
        raise fault

    feed = Feed(FIRST, seen())
    feed.start()
    with pytest.raises(PairproxyError, match=told):
        _ended(feed)


def _ended(feed: Feed) -> None:
    def fails() -> bool:
        try:
            return bool(feed.news) and False
        except PairproxyError:
            return True

    until(fails, "it fails")
    _ = feed.news
