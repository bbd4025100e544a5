"""Bodies as they come."""

import asyncio

import pytest

from pairproxy.proxy.content import HELD_BYTES, NOTHING, Content, whole
from tests.support.running import run_async


class Reading:
    """Whether the connection reads."""

    is_held = False

    def hold(self, is_held: bool) -> None:
        self.is_held = is_held


async def parts_of(content: Content) -> list[bytes]:
    """All that is read of it."""
    return [part async for part in content.iter_any()]


def test_what_is_there_is_taken_at_once() -> None:
    """Without a turn of the loop, and once."""

    async def main() -> None:
        content = whole(b"abc")
        assert not content.at_eof()
        assert content.whole() == b"abc"
        assert content.at_eof()
        assert await parts_of(content) == []
        assert (NOTHING.whole(), NOTHING.at_eof()) == (b"", True)

    run_async(main())


def test_what_comes_later_is_waited_for() -> None:
    """Parts that came together are taken together."""

    async def main() -> None:
        content = Content(Reading().hold)
        assert content.whole() is None
        content.feed(b"a")
        content.feed(b"b")
        assert await content.readany() == b"ab"
        reading = asyncio.create_task(parts_of(content))
        await asyncio.sleep(0)
        content.feed(b"c")
        await asyncio.sleep(0)
        content.feed(b"d")
        content.end()
        assert await reading == [b"c", b"d"]

    run_async(main())


@pytest.mark.parametrize("is_waiting", [False, True])
def test_who_reads_is_told_that_it_will_never_be_whole(is_waiting: bool) -> None:
    """After what came; a body that is whole is not touched."""

    async def main() -> None:
        content = Content(Reading().hold)
        content.feed(b"a")
        reading = asyncio.create_task(parts_of(content))
        if is_waiting:
            await asyncio.sleep(0)
        content.fail(ConnectionResetError())
        content.fail(ValueError())
        with pytest.raises(ConnectionResetError):
            await reading
        assert not content.at_eof()
        done = whole(b"a")
        done.fail(ValueError())
        assert await parts_of(done) == [b"a"]

    run_async(main())


def test_no_more_is_read_while_nobody_takes_it() -> None:
    """And again as soon as somebody does, or nobody ever will."""

    async def main() -> None:
        for is_dropped in (False, True):
            reading = Reading()
            content = Content(reading.hold)
            content.feed(b"x" * HELD_BYTES)
            assert not reading.is_held
            content.feed(b"x")
            assert reading.is_held
            if is_dropped:
                content.drop()
            else:
                assert len(await content.readany()) == HELD_BYTES + 1
            assert not reading.is_held
            content.feed(b"x" * (HELD_BYTES + 1))
            assert reading.is_held != is_dropped

    run_async(main())


def test_who_stops_waiting_may_wait_again() -> None:
    """A deadline between two parts costs nothing of them."""

    async def main() -> None:
        content = Content(Reading().hold)
        waiting = asyncio.create_task(content.readany())
        await asyncio.sleep(0)
        waiting.cancel()
        content.feed(b"a")
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await content.readany() == b"a"

    run_async(main())
