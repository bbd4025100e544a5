"""F11, F18: what is full or is started anew is waited for, for a while and by one at a time."""

import asyncio

import pytest

from pairproxy.core import queue
from pairproxy.core.models import Outcome
from tests.support import engine_scripts as scripts
from tests.support.bad_replies import (
    CHAT,
    GOOD,
    PATHS,
    SIDES,
    V1,
    WHOLE,
    alone,
    ask,
    assert_error,
    failing,
)
from tests.support.fake_engine import EngineConnection, ParsedRequest, eventually
from tests.support.running import run_async

pytestmark = pytest.mark.timed


@pytest.mark.parametrize(
    ("status", "path"),
    [
        (503, CHAT),
        *(pytest.param(*one, marks=pytest.mark.slow) for one in ((503, V1), (429, CHAT), (429, V1))),
    ],
)
def test_when_all_are_busy_requests_wait_here(
    status: int, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F11: ten requests wait in the queue, one at a time asks; then 503, when to come again, in its words."""
    monkeypatch.setattr(queue, "FULL_S", 1.2)

    async def main() -> None:
        full = scripts.json_reply({"error": "busy"}, status)
        async with failing("engine", full, full, slots=4) as (node, engine, peer):
            replies = await asyncio.gather(*(ask(node, path) for _ in range(10)))
            for reply in replies:
                assert_error(reply, path, 503)
                assert int(reply.header("Retry-After") or 0) >= 1
            assert len(engine.requests) <= 5  # four slots at first, one after a second
            assert len(peer.requests) <= 2
            assert {record.outcome for record in await node.recorded(10)} == {Outcome.REFUSED}

    run_async(main())


@pytest.mark.slow
def test_the_retry_after_of_an_engine_is_respected() -> None:
    """F11: who says "in two seconds" is asked again after two seconds, by one, and then by all."""

    async def main() -> None:
        times: list[float] = []

        async def script(incoming: ParsedRequest, connection: EngineConnection) -> None:
            times.append(asyncio.get_running_loop().time())
            if len(times) == 1:
                head = scripts.head(503, ("Retry-After", "2"), ("Content-Length", "0"))
                await connection.send(head)
            else:
                await GOOD(incoming, connection)

        async with alone("engine", script) as (node, _):
            replies = await asyncio.gather(*(ask(node) for _ in range(3)))
            assert [reply.body for reply in replies] == [WHOLE[CHAT]] * 3
            assert len(times) == 4
            assert times[1] - times[0] >= 1.99

    run_async(main())


@pytest.mark.parametrize("side", SIDES)
def test_an_engine_that_is_started_anew_is_waited_for(side: str) -> None:
    """F18: a request for the only copy of a model finds it again; nothing is lost."""

    async def main() -> None:
        async with alone(side, GOOD) as (node, engine):
            engine.stop_listening()
            asking = asyncio.create_task(ask(node))
            await eventually(lambda: node.scheduler.waiting == 1)
            async with type(engine)(GOOD, tls=engine.tls, port=engine.port):
                reply = await asking
                assert (reply.status, reply.body) == (200, WHOLE[CHAT])
            (record,) = await node.recorded()
            ends = [attempt.end for attempt in record.attempts]
            assert ends == ["Unreachable"] * (len(ends) - 1) + ["done"]
            assert 2 <= len(ends) <= 30

    run_async(main())


@pytest.mark.parametrize("path", PATHS)
def test_an_engine_that_stays_away_is_not_waited_for_longer(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F18: then 503, and when to come again."""
    monkeypatch.setattr(queue, "NOWHERE_S", 0.3)

    async def main() -> None:
        async with alone("engine", GOOD) as (node, engine):
            engine.stop_listening()
            reply = await ask(node, path)
            assert_error(reply, path, 503)
            assert int(reply.header("Retry-After") or 0) >= 1

    run_async(main())
