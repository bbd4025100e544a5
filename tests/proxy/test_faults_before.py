"""F1, F3-F5, F7, F8, F11-F15: what fails before the first body byte is not seen while another can answer."""

import asyncio
import json

import pytest

from pairproxy.core.events import TimePassed
from pairproxy.core.models import Outcome
from pairproxy.core.rules import Rules
from tests.support import engine_scripts as scripts
from tests.support.bad_replies import (
    BEN,
    CHAT,
    ELSEWHERE,
    GOOD,
    OF_PEERS,
    PATHS,
    SIDES,
    WHOLE,
    alone,
    ask,
    assert_error,
    body_of,
    failing,
)
from tests.support.fake_engine import EngineConnection, ParsedRequest, Script, eventually
from tests.support.raw_client import RawClient, request
from tests.support.running import run_async

pytestmark = pytest.mark.timed


def _marks(row: str, side: str, path: str) -> tuple[pytest.MarkDecorator, ...]:
    """Every row in one dialect is fast; in the other one what is of one side, and one row of each kind."""
    is_fast = path == CHAT or (side == "engine" and "J0" in row)
    return () if is_fast else (pytest.mark.slow,)


CASES = [
    pytest.param(side, path, *case, id=f"{row}-{side}-{path}", marks=_marks(row, side, path))
    for table, sides in ((ELSEWHERE, SIDES), (OF_PEERS, ("peer",)))
    for row, case in table.items()
    for side in sides
    for path in PATHS
]
BROKEN = [case for case in CASES if case.values[3] == "BrokenReply"]


ANSWERED = ("F12", "a gateway")  # by the engine, in words that are its client's where no other can answer


@pytest.mark.parametrize(("side", "path", "script", "expected"), CASES)
def test_another_place_answers(side: str, path: str, script: Script, expected: str) -> None:
    """The client has the other's reply, whole and alone; who failed was asked once."""

    async def main() -> None:
        async with failing(side, script) as (node, failed, other):
            reply = await ask(node, path)
            assert (reply.status, reply.is_whole, reply.body) == (200, True, WHOLE[path])
            (record,) = await node.recorded()
            ends = [attempt.end for attempt in record.attempts]
            assert (ends, record.outcome) == ([expected, "done"], Outcome.DONE)
            assert (len(failed.requests), len(other.requests)) == (1, 1)
            await eventually(lambda: not node.scheduler.running)

    run_async(main())


@pytest.mark.parametrize(("side", "path", "script", "expected"), BROKEN)
def test_with_no_other_place_the_client_learns_it_in_its_own_words(
    side: str, path: str, script: Script, expected: str, request: pytest.FixtureRequest
) -> None:
    """502, never the engine's garbage, 400 or 500; what an engine says in HTTP of itself is relayed."""
    row = request.node.callspec.id

    async def main() -> None:
        async with alone(side, script) as (node, failed):
            reply = await ask(node, path)
            if row.startswith(ANSWERED):
                assert reply.status in (404, 502)
                assert "error" in reply.json()
            else:
                assert_error(reply, path, 502)
            assert len(failed.requests) == 1
            (record,) = await node.recorded()
            assert record.outcome is (Outcome.ERROR if row.startswith(ANSWERED) else Outcome.FAILED)

    run_async(main())


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("side", SIDES)
def test_a_place_that_is_off_is_never_noticed(side: str, path: str) -> None:
    """F1: a connection that is refused costs a moment."""

    async def main() -> None:
        async with failing(side, GOOD) as (node, off, other):
            off.stop_listening()
            reply = await ask(node, path)
            assert (reply.status, reply.body) == (200, WHOLE[path])
            assert (len(off.requests), len(other.requests)) == (0, 1)
            (record,) = await node.recorded()
            assert [attempt.end for attempt in record.attempts] == ["Unreachable", "done"]

    run_async(main())


@pytest.mark.parametrize("then", ["close", "reset"])
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("side", SIDES)
def test_a_whole_reply_is_begun_anew_elsewhere(side: str, path: str, then: str) -> None:
    """F7: a request without streaming whose node dies while it computes gets its answer from another."""

    async def main() -> None:
        is_asked, go_on = asyncio.Event(), asyncio.Event()

        async def dies(_: ParsedRequest, connection: EngineConnection) -> None:
            is_asked.set()
            await go_on.wait()
            (connection.close if then == "close" else connection.reset)()

        async with failing(side, dies, scripts.json_reply({"done": True})) as (node, _, _other):
            asking = asyncio.create_task(ask(node, path, is_streaming=False))
            await is_asked.wait()
            go_on.set()
            assert (await asking).json() == {"done": True}

    run_async(main())


@pytest.mark.parametrize("is_streaming", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("path", PATHS)
def test_a_node_whose_heartbeat_stops_is_never_noticed(path: str, is_streaming: bool) -> None:
    """F7, F8, F10: before the first byte a node that hangs is left when its state documents stop."""

    async def main() -> None:
        good = GOOD if is_streaming else scripts.json_reply({"done": True})
        async with failing("peer", scripts.raw(then="hang"), good) as (node, peer, _):
            asking = asyncio.create_task(ask(node, path, is_streaming=is_streaming))
            await eventually(lambda: len(peer.requests) == 1)
            node.lose(BEN)
            reply = await asking
            assert (reply.status, reply.is_whole) == (200, True)
            await peer.connections[0].peer_left()
            (record,) = await node.recorded()
            assert [attempt.end for attempt in record.attempts] == ["NodeGone", "done"]

    run_async(main())


@pytest.mark.parametrize("pieces", [(), (scripts.chunked_head(),), (b"HTTP/1.1 200 OK\r\nX: ",)])
@pytest.mark.parametrize("side", SIDES)
def test_a_stuck_engine_is_left_for_another(side: str, pieces: tuple[bytes, ...]) -> None:
    """F8, J20, J22: silence before the first byte, heartbeat or not, with another node free."""

    async def main() -> None:
        script = scripts.raw(*pieces, then="hang")
        async with failing(side, script, rules=Rules(stuck_s=0.2)) as (node, stuck, _):
            short = body_of(CHAT)[:-1] + b',"options":{"num_predict":1}}'  # done sooner than was waited
            async with await RawClient.open(node.port) as client:
                reply = await client.ask(request(f"POST {CHAT} HTTP/1.1", short))
            assert (reply.status, reply.body) == (200, WHOLE[CHAT])
            await stuck.connections[0].peer_left()
            (record,) = await node.recorded()
            assert [attempt.end for attempt in record.attempts] == ["NodeGone", "done"]

    run_async(main())


@pytest.mark.parametrize("kind", ["only place", "whole reply", "tools"])
def test_an_engine_that_may_be_at_work_is_waited_for(kind: str) -> None:
    """6 (h): the only place, a reply in one piece, the call of a tool: however long they are silent."""

    async def main() -> None:
        go_on = asyncio.Event()

        async def thinks(incoming: ParsedRequest, connection: EngineConnection) -> None:
            await go_on.wait()
            await scripts.json_reply({"done": True})(incoming, connection)

        tools = b',"tools":[{"type":"function","function":{"name":"f","parameters":{}}}]}'
        body = body_of(CHAT, is_streaming=kind != "whole reply")
        body = body[:-1] + tools if kind == "tools" else body
        rules = Rules(stuck_s=0.05)
        place = (
            alone("engine", thinks, rules=rules)
            if kind == "only place"
            else failing("engine", thinks, rules=rules)
        )
        async with place as (node, engine, *others), await RawClient.open(node.port) as client:
            await client.send(request(f"POST {CHAT} HTTP/1.1", body))
            await eventually(lambda: len(engine.requests) == 1)
            for _ in range(20):
                await asyncio.sleep(0.01)
                node.dispatcher.tell(TimePassed(node.dispatcher.now()))
            assert engine.open_connections == 1
            go_on.set()
            assert (await client.reply()).json() == {"done": True}
            assert [len(other.requests) for other in others] in ([], [0])

    run_async(main())


REQUEST_ERRORS = {
    400: {"error": "no such option"},
    401: {"error": "no"},
    422: {"error": "?"},
}


@pytest.mark.parametrize("status", REQUEST_ERRORS)
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("side", SIDES)
def test_a_request_that_is_wrong_is_wrong_everywhere(side: str, path: str, status: int) -> None:
    """F13: the answer comes unchanged, nobody else is asked, and the place is not blamed."""

    async def main() -> None:
        answer = scripts.json_bytes(REQUEST_ERRORS[status], status)
        async with failing(side, scripts.raw(answer)) as (node, asked, other):
            reply = await ask(node, path)
            assert reply.status_line == answer.split(b"\r\n")[0]
            assert reply.body == json.dumps(REQUEST_ERRORS[status], separators=(",", ":")).encode()
            assert (len(asked.requests), len(other.requests)) == (1, 0)
            (record,) = await node.recorded()
            assert record.outcome is Outcome.ERROR
            assert len(node.scheduler._knows.avoidance) == 0

    run_async(main())
