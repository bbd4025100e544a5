"""One attempt that is taken back: the block ends, unless its reply is here already."""

import asyncio

from pairproxy.attempt import Attempt
from pairproxy.core.errors import Moved, UpstreamBusy
from pairproxy.core.models import Outcome
from tests.support.bridge import DONE, HERE, THERE, bridge, fail, hang, succeed
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
