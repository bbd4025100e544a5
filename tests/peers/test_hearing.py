"""What a stream of documents may cost: in order while that is cheap, the newest when it is not."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairproxy.peers import hearing
from pairproxy.peers.hearing import BEHIND, CREDIT_S, SHARE, Budget, Newest
from tests.support.fake_engine import eventually
from tests.support.running import run_async

LIMIT = 1000


async def sent(*lines: bytes, breaks: Exception | None = None) -> AsyncIterator[bytes]:
    """A stream of these lines that ends, or breaks."""
    for line in lines:
        yield line
    if breaks is not None:
        raise breaks


async def all_of(newest: Newest) -> list[bytes]:
    """What is told to a reader that keeps up."""
    found = []
    while (line := await newest.next()) is not None:
        found.append(line)
    return found


def test_who_keeps_up_hears_every_line_in_order() -> None:
    """Also of what came at once, up to what may wait."""

    async def scene() -> None:
        lines = [b"%d" % number for number in range(BEHIND)]
        async with Newest(sent(*lines), LIMIT) as newest:
            assert await all_of(newest) == lines
            assert newest.passed_over == 0

    run_async(scene())


def test_who_is_far_behind_hears_the_last() -> None:
    """Ten thousand lines that came at once cost the memory of a few, and the last of them is told."""

    async def scene() -> None:
        lines = [b"%d" % number for number in range(200)]
        async with Newest(sent(*lines), LIMIT) as newest:
            await eventually(newest._task.done)
            found = await all_of(newest)
            assert found[-1] == b"199"
            assert len(found) <= BEHIND + 1
            assert newest.passed_over == 200 - len(found)

    run_async(scene())


def test_large_lines_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more than the limit and one line wait, however few they are."""
    monkeypatch.setattr(hearing, "PASSED_BYTES_PER_S", 1e9)

    async def scene() -> None:
        async with Newest(sent(*[b"x" * 900] * 5), LIMIT) as newest:
            await eventually(newest._task.done)
            assert newest._bytes == sum(map(len, newest._waiting)) <= 2 * LIMIT
            assert newest.passed_over >= 2

    run_async(scene())


def test_what_broke_the_stream_is_raised_after_what_came_before() -> None:
    """The last lines count; then the reader learns why there are no more."""

    async def scene() -> None:
        async with Newest(sent(b"1", b"2", breaks=ValueError("broken")), LIMIT) as newest:
            assert [await newest.next(), await newest.next()] == [b"1", b"2"]
            with pytest.raises(ValueError, match="broken"):
                await newest.next()

    run_async(scene())


def test_a_reader_that_waits_is_woken_by_a_line_and_by_the_end() -> None:
    """Nobody waits for ever beside a stream that is over."""

    async def scene() -> None:
        gate = asyncio.Event()

        async def slowly() -> AsyncIterator[bytes]:
            await gate.wait()
            yield b"late"

        async with Newest(slowly(), LIMIT) as newest:
            waiting = asyncio.create_task(all_of(newest))
            await asyncio.sleep(0)
            gate.set()
            assert await asyncio.wait_for(waiting, 5.0) == [b"late"]

    run_async(scene())


def test_leaving_ends_the_reading() -> None:
    """The task does not outlive who reads."""

    async def scene() -> None:
        async def endless() -> AsyncIterator[bytes]:
            while True:
                await asyncio.sleep(0)
                yield b"x"

        async with Newest(endless(), LIMIT) as newest:
            await newest.next()
        assert newest._task.cancelled()

    run_async(scene())


@given(st.lists(st.floats(0.0, 0.2), min_size=50, max_size=200))
def test_no_work_takes_more_than_its_share_for_long(costs: list[float]) -> None:
    """However dear the documents are, the work is at most the credit, one document and SHARE of the time."""
    now, worked = 0.0, 0.0
    budget = Budget(now)
    for cost in costs:
        now, worked = now + cost, worked + cost
        now += budget.spend(cost, now)
        assert worked <= CREDIT_S + 0.2 + SHARE * now + 1e-9


def test_cheap_documents_are_never_paused_for() -> None:
    """A hundred a second of one millisecond each are a tenth of a core: an honest peer."""
    budget = Budget(0.0)
    assert all(budget.spend(0.001, number / 100) == 0.0 for number in range(10_000))


@pytest.mark.slow
def test_a_hostile_stream_costs_a_bounded_share_of_a_core() -> None:
    """Documents as fast as they can be sent, each dear to read: the loop stays free for everybody else."""

    async def scene() -> tuple[float, float, int]:
        async def flood() -> AsyncIterator[bytes]:
            while True:
                await asyncio.sleep(0)
                yield b"x" * 300

        loop = asyncio.get_running_loop()
        budget, read = Budget(loop.time()), 0
        began, cpu = loop.time(), time.thread_time()
        async with Newest(flood(), 1_000_000) as newest:
            while loop.time() - began < 6.0:
                await newest.next()
                before = time.thread_time()
                sum(range(200_000))  # some milliseconds
                read += 1
                await asyncio.sleep(budget.spend(time.thread_time() - before, loop.time()))
                newest.skip()
        return time.thread_time() - cpu, loop.time() - began, read

    cpu_s, wall_s, read = run_async(scene(), timeout=60.0)
    assert read > 10
    assert cpu_s < CREDIT_S + (SHARE + 0.15) * wall_s
