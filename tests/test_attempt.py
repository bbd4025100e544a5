"""One attempt that is taken back: the block ends, unless its reply is here already."""

import asyncio
import gc
import weakref
from functools import partial

import pytest

from pairproxy.attempt import Attempt
from pairproxy.core.errors import Moved, NodeGone, ReplyTruncated, UpstreamBusy
from pairproxy.core.models import Outcome
from tests.support.bridge import DONE, HERE, THERE, bridge, fail, hang, succeed
from tests.support.fake_engine import eventually
from tests.support.running import run_async


def test_an_attempt_that_is_taken_back_goes_on_elsewhere() -> None:
    """Its request is carried out once more, at another place; the client sees no error."""

    async def main() -> None:
        async with bridge() as one:
            one.hear_of_peer()

            async def move(attempt: Attempt) -> None:
                asyncio.get_running_loop().call_soon(attempt.break_off, Moved("moved"))
                await hang(attempt)

            first, second = await one.run("r", move, succeed)
            assert {first, second} == {HERE, THERE}
            assert [attempt.end for attempt in one.record.attempts] == ["Moved", "done"]

    run_async(main())


def test_a_reply_that_is_here_already_is_kept() -> None:
    """Whether its first byte comes just before it is taken back, or in the moment after."""

    async def main() -> None:
        async with bridge() as one:
            one.hear_of_peer()

            async def begin_first(attempt: Attempt) -> None:
                attempt.is_sent = True
                attempt.break_off(Moved("moved"))
                attempt.first_byte()
                await asyncio.sleep(0.01)
                attempt.finish(*DONE)

            assert len(await one.run("r", begin_first)) == 1
            assert one.record.outcome is Outcome.DONE

    run_async(main())


def test_the_place_that_a_request_was_taken_back_from_may_still_better_an_answer() -> None:
    """So the new place is not the last resort, although it is the only candidate."""

    async def main() -> None:
        async with bridge() as one:
            one.hear_of_peer()
            resorts = []

            async def move(attempt: Attempt) -> None:
                asyncio.get_running_loop().call_soon(attempt.break_off, Moved("moved"))
                await hang(attempt)

            async def busy(attempt: Attempt) -> None:
                resorts.append((len(attempt.decision.candidates), attempt.is_last_resort))
                await fail(UpstreamBusy("busy"))(attempt)

            first, second, third = await one.run("r", move, busy, succeed)
            assert first == third != second
            assert resorts == [(1, False)]

    run_async(main())


async def break_after(attempt: Attempt, tokens: int | None) -> None:
    """A reply that breaks with so many tokens delivered; None: nobody could go on with it."""
    attempt.is_sent = True
    attempt.first_byte()
    attempt.delivered = lambda: tokens
    raise ReplyTruncated("It broke.")


def test_a_reply_that_breaks_goes_round_to_a_place_that_goes_on() -> None:
    """The loop yields one more attempt for the rest; the record knows both."""

    async def main() -> None:
        async with bridge() as one:
            one.hear_of_peer(continues=True)
            one.report(continues=True)
            first, second = await one.run("r", partial(break_after, tokens=3), succeed)
            assert {first, second} == {HERE, THERE}
            assert [attempt.end for attempt in one.record.attempts] == ["broken", "done"]
            assert (one.record.outcome, one.record.continued) == (Outcome.DONE, 1)
            assert one.record.usage.output_tokens == 4

    run_async(main())


@pytest.mark.parametrize(("tokens", "end"), [(3, "broken"), (None, "truncated")])
def test_a_reply_that_breaks_and_goes_on_nowhere_is_truncated(tokens: int | None, end: str) -> None:
    """Nobody was seen to go on, or this reply cannot: the loop raises what has to be told."""

    async def main() -> None:
        async with bridge() as one:
            one.hear_of_peer()
            with pytest.raises(ReplyTruncated):
                await one.run("r", partial(break_after, tokens=tokens))
            assert one.record.outcome is Outcome.TRUNCATED
            assert [attempt.end for attempt in one.record.attempts] == [end]
            await eventually(lambda: len(one.scheduler.running) == 0)

    run_async(main())


def test_a_reply_whose_node_is_lost_is_gone_on_with_too() -> None:
    """Not its connection broke, its heartbeat stopped: the block is interrupted and the loop goes on."""

    async def main() -> None:
        async with bridge() as one:
            one.hear_of_peer(continues=True)
            one.report(continues=True)

            async def lose(attempt: Attempt) -> None:
                attempt.first_byte()
                attempt.delivered = lambda: 2
                asyncio.get_running_loop().call_soon(attempt.break_off, NodeGone("gone"))
                await asyncio.Event().wait()

            assert len(await one.run("r", lose, succeed)) == 2
            assert (one.record.outcome, one.record.continued) == (Outcome.DONE, 1)

    run_async(main())


def test_a_client_that_leaves_in_the_middle_is_not_gone_on_with() -> None:
    """Its request is cancelled, whatever could be asked of another node."""

    async def main() -> None:
        async with bridge() as one:
            one.hear_of_peer(continues=True)

            async def leave(attempt: Attempt) -> None:
                attempt.first_byte()
                attempt.delivered = lambda: 2
                raise ConnectionResetError

            with pytest.raises(ConnectionResetError):
                await one.run("r", leave)
            assert one.record.outcome is Outcome.CANCELLED

    run_async(main())


@pytest.mark.parametrize(
    ("is_streaming", "told"),
    [(False, ["AttemptFinished"]), (True, ["FirstByteReceived", "AttemptFinished"])],
)
def test_a_reply_that_is_here_at_once_is_told_of_once(is_streaming: bool, told: list[str]) -> None:
    """Its first byte is told with its end; a stream's is not waited for."""

    async def come_whole(attempt: Attempt) -> None:
        attempt.first_byte(is_whole=True)
        attempt.finish(*DONE)

    async def main() -> None:
        async with bridge() as one:
            one.events.clear()
            await one.run("r", come_whole, is_streaming=is_streaming)
            assert [type(event).__name__ for event in one.events] == ["RequestArrived", *told]
            assert one.record.attempts[0].first_byte_at is not None

    run_async(main())


def test_a_reply_that_is_here_at_once_and_fails_has_begun() -> None:
    """A fault of ours between its first byte and its end: the first byte is told all the same."""

    async def fail_at_the_end(attempt: Attempt) -> None:
        attempt.first_byte(is_whole=True)
        raise ZeroDivisionError

    async def main() -> None:
        async with bridge() as one:
            one.events.clear()
            with pytest.raises(ZeroDivisionError):
                await one.run("r", fail_at_the_end, is_streaming=False)
            kinds = [type(event).__name__ for event in one.events]
            assert kinds == ["RequestArrived", "FirstByteReceived", "AttemptFailed"]

    run_async(main())


def test_what_a_client_that_left_held_is_let_go_at_once() -> None:
    """Its task, cancelled, is in no circle with the attempt: a body need not wait for a look for garbage."""

    async def main() -> None:
        async with bridge() as one:
            bodies: list[weakref.ref[set[int]]] = []

            async def leave(attempt: Attempt) -> None:
                body = {1}
                bodies.append(weakref.ref(body))
                await hang(attempt)

            task = asyncio.create_task(one.run("r", leave))
            await eventually(lambda: bool(bodies))
            task.cancel()
            await asyncio.wait([task])  # without taking up its error, which would hold all as well
            assert task.cancelled()
            del task
            await eventually(lambda: one.record.outcome is Outcome.CANCELLED)
            assert bodies[0]() is None

    gc.disable()
    try:
        run_async(main())
    finally:
        gc.enable()
