"""How long a slot stays charged after its request is over, and what faults of others cannot do."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from pairproxy.attempt import Attempt
from pairproxy.core.commands import Command
from pairproxy.core.errors import (
    BrokenReply,
    Unreachable,
)
from pairproxy.core.events import Event, NodeLost
from pairproxy.core.models import EngineId, Outcome
from tests.support.bridge import HERE, THERE, bridge, fail, hang, hang_in_the_middle, succeed
from tests.support.fake_engine import eventually
from tests.support.node import Settling
from tests.support.running import run_async


@pytest.mark.parametrize("block", [hang, hang_in_the_middle])
def test_a_slot_is_charged_until_its_engine_settled(block: Callable[[Attempt], Awaitable[None]]) -> None:
    """A request that left a local engine at work holds its slot until settled() returns."""

    async def main() -> None:
        settling = Settling()
        async with bridge(settling) as one:
            task = asyncio.create_task(one.run("r", block))
            await eventually(lambda: len(one.scheduler.running) == 1)
            task.cancel()
            await eventually(lambda: settling.calls == [0])
            assert len(one.scheduler.running) == 1
            assert one.spawned == ["settle engine"]
            settling.release()
            await eventually(lambda: len(one.scheduler.running) == 0)

    run_async(main())


def test_what_never_reached_an_engine_needs_no_settling() -> None:
    """A connection that was refused frees its slot at once."""

    async def main() -> None:
        async with bridge(Settling()) as one:
            off = fail(Unreachable("off"), is_sent=False)
            assert await one.run("r", off, succeed) == [HERE, HERE]  # waits for no slot
            assert (one.spawned, len(one.scheduler.running)) == ([], 0)

    run_async(main())


def test_an_engine_that_cannot_be_asked_frees_its_slot() -> None:
    """An error of settled() neither keeps the slot nor ends the daemon."""

    async def broken(engine: EngineId, others: int) -> None:
        raise Unreachable("off")

    async def main() -> None:
        async with bridge(broken) as one:
            with pytest.raises(BrokenReply):
                await one.run("r", fail(BrokenReply("x")))
            await eventually(lambda: len(one.scheduler.running) == 0)

    run_async(main())


def test_a_closed_dispatcher_begins_nothing() -> None:
    """After close() an attempt may still end, but nothing is watched and no timer is set."""

    async def main() -> None:
        async with bridge(Settling()) as one:
            task = asyncio.create_task(one.run("r", hang))
            await eventually(lambda: len(one.scheduler.running) == 1)
            one.dispatcher.close()
            task.cancel()
            await asyncio.wait([task])
            assert (one.spawned, len(one.scheduler.running)) == ([], 0)

    run_async(main())


def test_idle_is_when_nothing_runs() -> None:
    """until_idle() returns at once, or with the end of what runs; also the second time."""

    async def main() -> None:
        async with bridge() as one:
            await one.dispatcher.until_idle()
            for name in ("first", "second"):
                running = asyncio.create_task(one.run(name, hang))
                await eventually(lambda: len(one.scheduler.running) == 1)
                idle = asyncio.create_task(one.dispatcher.until_idle())
                await asyncio.sleep(0)
                assert not idle.done()
                running.cancel()
                await idle
                await asyncio.wait([running])

    run_async(main())


def test_a_node_that_is_lost_before_its_attempt_began_is_left_all_the_same() -> None:
    """The loop turns once between the dispatch and its block; the request goes to another place at once."""

    async def main() -> None:
        async with bridge() as one:
            first = asyncio.create_task(one.run("first", hang))
            await eventually(lambda: len(one.scheduler.running) == 1)
            second = asyncio.create_task(one.run("second", hang, succeed))
            await eventually(lambda: one.scheduler.waiting == 1)
            one.hear_of_peer()
            one.dispatcher.tell(NodeLost(one.dispatcher.now(), THERE.node))
            first.cancel()
            assert await second == [THERE, HERE]
            assert [attempt.end for attempt in one.record_of("second").attempts] == ["NodeGone", "done"]
            assert not one.dispatcher._broken_off

    run_async(main())


def test_a_lost_node_is_forgotten_with_the_client_that_left() -> None:
    """Nothing of an attempt that nobody began is kept."""

    async def main() -> None:
        async with bridge() as one:
            first = asyncio.create_task(one.run("first", hang))
            await eventually(lambda: len(one.scheduler.running) == 1)
            second = asyncio.create_task(one.run("second", hang))
            await eventually(lambda: one.scheduler.waiting == 1)
            one.hear_of_peer()
            one.dispatcher.tell(NodeLost(one.dispatcher.now(), THERE.node))
            second.cancel()
            first.cancel()
            await asyncio.wait([first, second])
            assert not one.dispatcher._broken_off
            await eventually(lambda: len(one.scheduler.running) == 0)

    run_async(main())


def test_a_listener_that_fails_costs_no_request(caplog: pytest.LogCaptureFixture) -> None:
    """Commands are performed and other listeners hear; the log names the fault, not what it says."""

    def broken(event: Event, commands: list[Command]) -> None:
        raise KeyError("a prompt")

    async def main() -> None:
        async with bridge() as one:
            for listeners in one.dispatcher._listeners.values():
                listeners.insert(0, broken)
            assert await one.run("r", succeed) == [HERE]
            assert one.record.outcome is Outcome.DONE

    run_async(main())
    assert "a listener failed at RequestArrived: KeyError" in caplog.text
    assert "a prompt" not in caplog.text
