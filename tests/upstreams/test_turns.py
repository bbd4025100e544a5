"""Dialling in turns: what a burst, a failure and a caller who leaves mean for those who wait."""

import asyncio
from typing import cast

import pytest

from pairproxy.core.errors import Unreachable
from pairproxy.upstreams.connection import Connection
from pairproxy.upstreams.turns import HANDSHAKES, Turns
from tests.support.fake_engine import eventually
from tests.support.running import run_async

HERE, THERE = ("127.0.0.1", 1), ("127.0.0.1", 2)
LATE = 3  # callers beyond those who may dial


class Wire(asyncio.Transport):
    """A transport of which only its being open matters."""

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False


def link(address: tuple[str, int], releases: list[Connection] | None = None) -> Connection:
    """A connection of which only its coming free matters, and is noted."""
    noted = [] if releases is None else releases
    one = Connection(address, lambda free, is_reusable: noted.append(free), lambda lost: None)
    one.connection_made(Wire())
    return one


async def crowd(turns: Turns) -> list["asyncio.Task[Connection | None]"]:
    """As many dial as may, and LATE more wait."""
    for _ in range(HANDSHAKES):
        assert await turns.next(HERE) is None
    waiting = [asyncio.create_task(turns.next(HERE)) for _ in range(LATE)]
    await asyncio.sleep(0)
    return waiting


async def leave(*tasks: "asyncio.Task[Connection | None]") -> None:
    """Nobody waits any more."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def done(tasks: list["asyncio.Task[Connection | None]"]) -> list[bool]:
    """Which of them have their turn."""
    return [task.done() for task in tasks]


def test_each_end_of_a_dial_begins_the_next_in_the_order_of_asking() -> None:
    """No more than HANDSHAKES dial at once, and nobody is left over."""

    async def main() -> None:
        turns = Turns(9.0)
        waiting = await crowd(turns)
        for number in range(LATE):
            assert done(waiting) == [True] * number + [False] * (LATE - number)
            turns.end()
            assert await waiting[number] is None
        for _ in range(HANDSHAKES):
            turns.end()
        await leave(*await crowd(turns))

    run_async(main())


def test_a_connection_that_comes_free_goes_to_who_waited_longest() -> None:
    """At the address that is wanted; who has one does not dial."""

    async def main() -> None:
        turns = Turns(9.0)
        assert not turns.give(link(HERE))
        waiting = await crowd(turns)
        free = link(HERE)
        assert not turns.give(link(THERE))
        assert turns.give(free)
        assert await waiting[0] is free
        assert done(waiting) == [True, False, False]
        await leave(*waiting)

    run_async(main())


@pytest.mark.parametrize("is_given", [False, True])
def test_who_leaves_as_it_is_given_something_passes_it_on(is_given: bool) -> None:
    """Neither a turn nor a connection is lost."""

    async def main() -> None:
        turns = Turns(9.0)
        waiting = await crowd(turns)
        releases: list[Connection] = []
        free = link(HERE, releases)
        waiting[1].cancel()
        await asyncio.sleep(0)
        if is_given:
            turns.give(free)
        else:
            turns.end()
        waiting[0].cancel()
        assert await asyncio.gather(*waiting[:2], return_exceptions=True)
        assert all(task.cancelled() for task in waiting[:2])
        assert releases == [free] * is_given
        if not is_given:
            assert await waiting[2] is None
        await leave(*waiting)

    run_async(main())


def test_where_nobody_is_all_hear_so_at_once() -> None:
    """They do not find out one after the other; who wants another address waits on."""

    async def main() -> None:
        turns = Turns(9.0)
        waiting = await crowd(turns)
        other = asyncio.create_task(turns.next(THERE))
        await asyncio.sleep(0)
        turns.fail(HERE, "Nobody is there.")
        for task in waiting:
            with pytest.raises(Unreachable, match=r"Nobody is there\."):
                await task
        assert not other.done()
        turns.end()
        assert await other is None

    run_async(main())


def test_nobody_waits_without_end() -> None:
    """Handshakes that hang do not hold who waits behind them longer than one that dials."""

    async def main() -> None:
        turns = Turns(0.01)
        waiting = await crowd(turns)
        await eventually(lambda: all(done(waiting)))
        assert {type(cast(Exception, task.exception())) for task in waiting} == {Unreachable}
        turns.end()
        assert await turns.next(HERE) is None

    run_async(main())
