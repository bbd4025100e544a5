import asyncio
from contextlib import AsyncExitStack

import pytest

from pairproxy.clock import MonotonicClock
from pairproxy.config import PacedSettings
from pairproxy.core.errors import QueueFull
from pairproxy.engines.paced_gpu import WAITING_LIMIT, PacedGpu, Prefill, SharedWork, Slots
from tests.support.running import run_async

pytestmark = pytest.mark.timed


class ManualClock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        return self.time


def gpu(slots: int = 1, **settings: float) -> PacedGpu:
    """A machine fast enough for tests."""
    return PacedGpu(PacedSettings(**{"prefill": 1e6, "decode": 1000.0, **settings}), slots, MonotonicClock())  # type: ignore[arg-type]


def test_work_counts_the_share_of_each_moment() -> None:
    """Progress is the sum of what each number of members gave, to the moment."""
    clock = ManualClock()
    work = SharedWork(clock, lambda members: 12.0 / max(members, 1))
    work.join()
    clock.time = 1.0
    work.join()
    clock.time = 2.0
    work.join()
    clock.time = 3.0
    work.leave()
    clock.time = 4.0
    assert work.done() == pytest.approx(12 + 6 + 4 + 6)


def test_waiting_follows_a_change_of_the_share() -> None:
    """Whoever waits is done earlier when others leave, and is told so."""

    async def play() -> float:
        clock = MonotonicClock()
        work = SharedWork(clock, lambda members: 10.0 / max(members, 1))
        for _ in range(1000):
            work.join()
        waiting = asyncio.create_task(work.reach(1.0))
        await asyncio.sleep(0)
        began = clock.now()
        for _ in range(999):
            work.leave()
        await waiting
        return clock.now() - began

    assert 0.05 < run_async(play()) < 5.0  # alone 0.1 s, with all of them 100 s


def test_no_more_than_the_slots_run() -> None:
    """The others wait, and both are counted."""

    async def play() -> tuple[int, Slots]:
        slots, most = Slots(3), 0

        async def one() -> None:
            nonlocal most
            async with slots.take():
                most = max(most, slots.running)
                await asyncio.sleep(0.001)

        await asyncio.gather(*(one() for _ in range(20)))
        return most, slots

    most, slots = run_async(play())
    assert most == 3
    assert (slots.running, slots.in_flight) == (0, 0)
    assert (slots.max_in_flight, slots.ever_waited) == (20, 17)


def test_first_come_first_served() -> None:
    """Waiting requests get slots in the order they came, also past one that left."""

    async def play() -> list[int]:
        slots, order = Slots(1), []

        async def one(number: int) -> None:
            async with slots.take():
                order.append(number)

        async with slots.take():
            tasks = [asyncio.create_task(one(number)) for number in range(5)]
            await asyncio.sleep(0)
            tasks[1].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return order

    assert run_async(play()) == [0, 2, 3, 4]


def test_a_slot_given_to_one_who_leaves_goes_on() -> None:
    """Leaving in the moment of one's turn loses no slot."""

    async def play() -> Slots:
        slots = Slots(1)

        async def one() -> None:
            async with slots.take():
                await asyncio.sleep(0)

        async with AsyncExitStack() as stack:
            await stack.enter_async_context(slots.take())
            leaving, staying = asyncio.create_task(one()), asyncio.create_task(one())
            await asyncio.sleep(0)
        leaving.cancel()  # its turn has come, but it does not know yet
        await asyncio.gather(leaving, staying, return_exceptions=True)
        assert staying.exception() is None
        return slots

    assert run_async(play()).running == 0


def test_the_queue_is_bounded() -> None:
    """When too many wait, the next is refused."""

    async def play() -> None:
        slots = Slots(1)

        async def one() -> None:
            async with slots.take():
                pass

        async with slots.take():
            waiting = [asyncio.create_task(one()) for _ in range(WAITING_LIMIT)]
            await asyncio.sleep(0)
            with pytest.raises(QueueFull):
                await one()
        await asyncio.gather(*waiting)

    run_async(play())


def test_the_model_is_loaded_once() -> None:
    """The first request waits for loading, later ones do not."""

    async def play() -> tuple[float, float]:
        machine = gpu(load_s=0.1)
        loaded = [machine.is_loaded]
        waited = await machine.load()
        loaded.append(machine.is_loaded)
        assert loaded == [False, True]
        return waited, await machine.load()

    first, second = run_async(play())
    assert first >= 0.1
    assert second == 0.0


def test_a_cached_start_costs_nothing() -> None:
    """A prompt that begins like an earlier one is read from there on."""

    async def play() -> tuple[int, int, int]:
        machine = gpu()
        await machine.prefill("s" * 640 + "a" * 64)
        again = await machine.prefill("s" * 640 + "b" * 64)
        fresh = await machine.prefill("s" * 640 + "b" * 64, use_cache=False)
        return again.cached_tokens, again.new_tokens, fresh.new_tokens

    assert run_async(play()) == (160, 16, 176)


def test_prompts_read_at_once_share_the_rate() -> None:
    """Two prompts together take as long as both in turn: no machine reads faster than its rate."""

    async def play() -> float:
        machine, clock = gpu(slots=2, prefill=2000.0), MonotonicClock()
        began = clock.now()
        await asyncio.gather(machine.prefill("a" * 400), machine.prefill("b" * 400))
        return clock.now() - began

    assert 0.1 <= run_async(play()) < 0.2 * 2


@pytest.mark.parametrize(("slots", "beta"), [(1, 0.0), (2, 0.0), (2, 1.0), (4, 0.15)])
def test_tokens_come_at_the_pace_of_those_who_run(slots: int, beta: float) -> None:
    """c requests get decode / (1 + beta (c - 1)) tokens/s each: never faster, and not much slower."""
    tokens, decode = 40, 400.0

    async def play() -> float:
        machine, clock = gpu(slots=slots, decode=decode, beta=beta), MonotonicClock()

        async def one() -> None:
            async with machine.seat() as seat:
                for _ in range(tokens):
                    await seat.tokens()

        began = clock.now()
        await asyncio.gather(*(one() for _ in range(slots)))
        return clock.now() - began

    expected = tokens / decode * (1 + beta * (slots - 1))
    assert expected <= run_async(play()) * 1.001
    assert run_async(play()) < expected * 2


def test_late_timers_do_not_add_up() -> None:
    """At 20000 tokens/s, twenty times finer than the timer, the pace still holds."""

    async def play() -> float:
        machine, clock = gpu(decode=20000.0), MonotonicClock()
        async with machine.seat() as seat:
            began = clock.now()
            for _ in range(2000):
                await seat.tokens()
            return clock.now() - began

    assert 0.0999 < run_async(play()) < 0.2 * 2


def test_leaving_frees_the_slot() -> None:
    """A request that is cancelled in the middle of its reply leaves nothing behind."""

    async def play() -> int:
        machine = gpu(decode=1.0)

        async def one() -> None:
            async with machine.seat() as seat:
                await seat.tokens()

        task = asyncio.create_task(one())
        await asyncio.sleep(0)
        assert machine.slots.running == 1
        task.cancel()
        async with asyncio.timeout(5):
            await machine.slots.until(lambda: machine.slots.in_flight == 0)
        return machine.slots.running

    assert run_async(play()) == 0


def test_those_who_left_slow_nobody() -> None:
    """After a hundred requests the next decodes as fast as the first."""

    async def play() -> float:
        machine, clock = gpu(decode=400.0, beta=1.0), MonotonicClock()
        for _ in range(100):
            async with machine.seat():
                pass
        began = clock.now()
        async with machine.seat() as seat:
            for _ in range(20):
                await seat.tokens()
        return clock.now() - began

    assert 0.0499 < run_async(play()) < 0.05 * 20  # with the hundred still there it would take 5 s


def test_fast_forward_speeds_up_all_of_it() -> None:
    """Loading, reading and answering take a fortieth; the tokens are the same."""

    async def play() -> tuple[float, Prefill, float]:
        machine, clock = gpu(prefill=100.0, decode=10.0, load_s=4.0, fast_forward=40.0), MonotonicClock()
        loaded_s = await machine.load()
        read = await machine.prefill("a" * 1600)
        async with machine.seat() as seat:
            began = clock.now()
            late_s = await seat.tokens(40)
            return loaded_s, read, clock.now() - began - late_s

    loaded_s, read, answered_s = run_async(play())
    assert 0.1 <= loaded_s < 1.0
    assert read.new_tokens == 400
    assert read.seconds == pytest.approx(0.1, rel=0.02)
    assert 0.09 <= answered_s < 1.0


def test_a_late_timer_does_not_make_the_machine_slower_by_its_own_account() -> None:
    """What is told of the pace is the work's, however late the loop came to say so."""

    async def play() -> float:
        clock = ManualClock()
        work = SharedWork(clock, lambda members: 100.0)
        work.join()
        waiting = asyncio.create_task(work.reach(50.0))
        await asyncio.sleep(0)
        clock.time = 0.75
        work.leave()  # wakes whoever waits
        return await waiting

    assert run_async(play()) == pytest.approx(0.25)
