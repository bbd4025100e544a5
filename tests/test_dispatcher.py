"""The bridge: what happens in the block of an attempt becomes an event, and each command is performed."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from pairproxy.attempt import Attempt
from pairproxy.core.errors import (
    BadRequest,
    BrokenReply,
    NodeGone,
    PairproxyError,
    QueueTimeout,
    ReplyTruncated,
    Unreachable,
)
from pairproxy.core.events import NodeLost
from pairproxy.core.models import (
    Outcome,
)
from pairproxy.core.rules import Rules
from tests.support.bridge import HERE, THERE, bridge, fail, hang, hang_in_the_middle, succeed
from tests.support.fake_engine import eventually
from tests.support.running import run_async


def test_a_reply_that_ended_frees_its_slot_for_the_next() -> None:
    """The second request waits in the queue until the first is over, and is then carried out."""

    async def main() -> None:
        async with bridge() as one:
            go_on = asyncio.Event()

            async def wait(attempt: Attempt) -> None:
                await go_on.wait()
                await succeed(attempt)

            first = asyncio.create_task(one.run("first", wait))
            await asyncio.sleep(0)
            second = asyncio.create_task(one.run("second", succeed))
            await eventually(lambda: one.scheduler.waiting == 1)
            go_on.set()
            assert await first == await second == [HERE]
            assert [record.outcome for record in one.ledger.records] == [Outcome.DONE] * 2
            assert len(one.scheduler.running) == 0

    run_async(main())


def test_a_failure_before_the_first_byte_goes_round_to_another_place() -> None:
    """The loop yields the next attempt; the request ends with what that one did."""

    async def main() -> None:
        async with bridge() as one:
            one.hear_of_peer()
            places = await one.run("r", fail(Unreachable("off"), is_sent=False), succeed)
            assert set(places) == {HERE, THERE}
            assert [attempt.end for attempt in one.record.attempts] == ["Unreachable", "done"]

    run_async(main())


@pytest.mark.parametrize("error", [BrokenReply("x"), BadRequest("x")])
def test_a_failure_that_cannot_be_mended_is_the_answer(error: PairproxyError) -> None:
    """With no other place, or an error that no place can mend, the loop raises it."""

    async def main() -> None:
        async with bridge() as one:
            with pytest.raises(type(error)):
                await one.run("r", fail(error))
            await eventually(lambda: len(one.scheduler.running) == 0)
            assert one.record.outcome is Outcome.FAILED

    run_async(main())


def test_a_block_that_says_nothing_failed() -> None:
    """An attempt has an outcome, or it is a broken reply."""

    async def nothing(attempt: Attempt) -> None:
        attempt.is_sent = True

    async def main() -> None:
        async with bridge() as one:
            with pytest.raises(BrokenReply):
                await one.run("r", nothing)
            assert [attempt.end for attempt in one.record.attempts] == ["BrokenReply"]

    run_async(main())


@pytest.mark.parametrize("has_first_byte", [False, True])
def test_a_fault_of_ours_stays_visible_and_gives_the_slot_back(has_first_byte: bool) -> None:
    """A foreign error leaves the loop as it is; no other place is tried, and nothing stays charged."""

    async def fault(attempt: Attempt) -> None:
        if has_first_byte:
            attempt.first_byte()
        raise ZeroDivisionError

    async def main() -> None:
        async with bridge() as one:
            one.hear_of_peer()
            with pytest.raises(ZeroDivisionError):
                await one.run("r", fault)
            await eventually(lambda: len(one.scheduler.running) == 0)
            assert one.record.outcome is Outcome.FAILED

    run_async(main())


@pytest.mark.parametrize("error", [ConnectionResetError(), asyncio.CancelledError()])
@pytest.mark.parametrize("block", [hang, hang_in_the_middle])
def test_a_client_that_leaves_blames_nobody(
    error: BaseException, block: Callable[[Attempt], Awaitable[None]]
) -> None:
    """Its request is cancelled, whether by its task or by its connection; the place stays good."""

    async def main() -> None:
        async with bridge() as one:
            one.hear_of_peer()
            if isinstance(error, ConnectionError):
                with pytest.raises(ConnectionError):
                    await one.run("r", fail(error))
            else:
                task = asyncio.create_task(one.run("r", block))
                await eventually(lambda: len(one.scheduler.running) == 1)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            await eventually(lambda: len(one.scheduler.running) == 0)
            assert one.record.outcome is Outcome.CANCELLED
            assert len(await asyncio.gather(one.run("s", succeed), one.run("t", succeed))) == 2

    run_async(main())


def test_a_client_that_leaves_the_queue_is_no_longer_waited_for() -> None:
    """Cancelled while it waits, a request is out of the queue at once."""

    async def main() -> None:
        async with bridge() as one:
            first = asyncio.create_task(one.run("first", hang))
            await eventually(lambda: len(one.scheduler.running) == 1)
            second = asyncio.create_task(one.run("second", succeed))
            await eventually(lambda: one.scheduler.waiting == 1)
            second.cancel()
            first.cancel()
            await asyncio.wait([first, second])
            assert one.scheduler.waiting == 0
            await eventually(lambda: len(one.scheduler.running) == 0)

    run_async(main())


def test_a_client_that_leaves_at_the_moment_of_its_turn_gives_the_slot_back() -> None:
    """A dispatch that nobody takes up any more is undone."""

    async def main() -> None:
        async with bridge() as one:
            go_on = asyncio.Event()

            async def wait(attempt: Attempt) -> None:
                await go_on.wait()
                await succeed(attempt)
                second.cancel()  # its dispatch was performed a moment ago; its task has not run since

            first = asyncio.create_task(one.run("first", wait))
            await eventually(lambda: len(one.scheduler.running) == 1)
            second = asyncio.create_task(one.run("second", succeed))
            await eventually(lambda: one.scheduler.waiting == 1)
            go_on.set()
            await asyncio.wait([first, second])
            assert second.cancelled()
            assert len(one.scheduler.running) == 0
            assert [record.outcome for record in one.ledger.records] == [Outcome.DONE, Outcome.CANCELLED]

    run_async(main())


def test_a_lost_node_ends_the_attempt_and_the_request_goes_elsewhere() -> None:
    """BreakOff interrupts whatever the block awaits; before the first byte another place is tried."""

    async def main() -> None:
        async with bridge() as one:
            one.hear_of_peer()

            async def lose(attempt: Attempt) -> None:
                event = NodeLost(one.dispatcher.now(), THERE.node)
                asyncio.get_running_loop().call_soon(one.dispatcher.tell, event)
                await hang(attempt)

            assert await one.run("r", lose, succeed) == [THERE, HERE]
            assert [attempt.end for attempt in one.record.attempts] == ["NodeGone", "done"]

    run_async(main())


def test_a_node_lost_in_the_middle_truncates_the_reply() -> None:
    """After the first byte the loop raises ReplyTruncated, and no other place is tried."""

    async def main() -> None:
        async with bridge() as one:

            async def lose(attempt: Attempt) -> None:
                asyncio.get_running_loop().call_soon(attempt.break_off, NodeGone("gone"))
                await hang_in_the_middle(attempt)

            with pytest.raises(ReplyTruncated):
                await one.run("r", lose)
            assert one.record.outcome is Outcome.TRUNCATED

    run_async(main())


def test_a_node_lost_after_the_end_changes_nothing() -> None:
    """Breaking off an attempt that ended interrupts nobody."""

    async def main() -> None:
        async with bridge() as one:

            async def end_and_lose(attempt: Attempt) -> None:
                await succeed(attempt)
                attempt.break_off(NodeGone("gone"))
                await asyncio.sleep(0.01)

            assert await one.run("r", end_and_lose) == [HERE]
            assert one.record.outcome is Outcome.DONE

    run_async(main())


def test_a_request_waits_only_so_long() -> None:
    """The scheduler is woken when a request has waited too long, and the request is refused."""

    async def main() -> None:
        async with bridge(rules=Rules(queue_timeout_s=0.05)) as one:
            first = asyncio.create_task(one.run("first", hang))
            await eventually(lambda: len(one.scheduler.running) == 1)
            with pytest.raises(QueueTimeout):
                await one.run("second")
            assert one.record.outcome is Outcome.REFUSED
            first.cancel()
            await asyncio.wait([first])

    run_async(main())


def test_listeners_hear_every_event_in_order_with_its_commands() -> None:
    """What the ledger is told is what happened, in the order in which it happened."""

    async def main() -> None:
        async with bridge() as one:
            one.events.clear()
            await one.run("r", succeed)
            kinds = [type(event).__name__ for event in one.events]
            assert kinds == ["RequestArrived", "FirstByteReceived", "AttemptFinished"]
            times = [event.at for event in one.events]
            assert times == sorted(times)

    run_async(main())


def test_what_came_of_a_reply_is_known_while_it_runs() -> None:
    """By whoever reads it; before that nothing came, and afterwards nobody tells."""

    async def main() -> None:
        async with bridge() as one:
            told: list[int] = []

            async def write(attempt: Attempt) -> None:
                written = one.dispatcher.written_of(attempt.id)
                assert written is not None
                told.append(written())
                attempt.written = lambda: 7
                written = one.dispatcher.written_of(attempt.id)
                assert written is not None
                told.append(written())
                await succeed(attempt)
                assert one.dispatcher.written_of(attempt.id) is None

            await one.run("r", write)
            assert told == [0, 7]

    run_async(main())
