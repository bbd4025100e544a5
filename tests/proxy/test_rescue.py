"""Two nodes with sockets between them: a request that hangs on the slow one is done on the fast one."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from pairproxy.core.events import SpeedMeasured
from pairproxy.core.models import Outcome, Usage
from tests.support import engine_scripts as scripts
from tests.support.fake_engine import EngineConnection, FakeEngine, ParsedRequest, Script, eventually
from tests.support.node import ENGINE, MODEL, Node, Settling
from tests.support.raw_client import RawClient, RawReply, request
from tests.support.running import run_async

COUNT = 8
REPLY = {"message": {"content": "whole"}, "done": True, "prompt_eval_count": 9, "eval_count": 50}
BODY = b'{"model":"m:1","messages":[{"role":"user","content":"hello"}],"stream":false}'
FAST, SLOW = 100.0, 20.0  # tokens/s, as both nodes have measured themselves


async def ask(port: int) -> RawReply:
    """A request whose reply comes in one piece."""
    async with await RawClient.open(port) as client:
        return await client.ask(request(body=BODY))


class Engines:
    """A fast one, which waits until the slow one has something to do; that never ends what it is given."""

    def __init__(self) -> None:
        self.is_busy = asyncio.Event()

    async def fast(self, asked: ParsedRequest, connection: EngineConnection) -> None:
        """Answer once the other one is at work."""
        await self.is_busy.wait()
        await scripts.json_reply(REPLY)(asked, connection)

    async def slow(self, _: ParsedRequest, connection: EngineConnection) -> None:
        """Work until the client has gone."""
        self.is_busy.set()
        await connection.peer_left()


def measured(node: Node, rate: float) -> None:
    """Let a node know how fast it is."""
    usage = Usage(prompt_tokens=500, output_tokens=500, prefill_s=0.5, decode_s=500 / rate)
    node.dispatcher.tell(SpeedMeasured(node.dispatcher.now(), ENGINE, MODEL, usage))


@contextlib.asynccontextmanager
async def nodes(
    hers: Script, his: Script, rates: tuple[float, float], settling: Settling
) -> AsyncIterator[tuple[Node, Node, FakeEngine, FakeEngine]]:
    """Anna, who may use ben: (anna, ben, her engine, his)."""
    async with (
        FakeEngine(hers) as one,
        FakeEngine(his) as other,
        Node(other, name="ben", settle=settling) as ben,
        Node(one, settle=settling) as anna,
    ):
        measured(anna, rates[0])
        measured(ben, rates[1])
        await anna.pair(ben)
        yield anna, ben, one, other


@pytest.mark.parametrize("is_here", [True, False], ids=["from this node", "from a peer"])
def test_a_straggler_is_moved_and_its_reply_comes_once(is_here: bool) -> None:
    """Every client has its whole reply; the slow engine is hung up on, and its slot free once it settled."""

    async def main() -> None:
        engines, settling = Engines(), Settling()
        scripts_of = (engines.slow, engines.fast) if is_here else (engines.fast, engines.slow)
        rates = (SLOW, FAST) if is_here else (FAST, SLOW)
        async with nodes(scripts_of[0], scripts_of[1], rates, settling) as (anna, ben, hers, his):
            slow, fast = (anna, ben) if is_here else (ben, anna)
            slow_engine, fast_engine = (hers, his) if is_here else (his, hers)
            replies = await asyncio.gather(*(ask(anna.port) for _ in range(COUNT)))
            assert [(reply.status, reply.json()) for reply in replies] == [(200, REPLY)] * COUNT
            assert len(fast_engine.requests) == COUNT
            assert len(slow_engine.requests) == 1
            await eventually(lambda: slow_engine.open_connections == 0)

            records = await anna.recorded(COUNT)
            (moved,) = [record for record in records if len(record.attempts) > 1]
            assert [(one.place.node, one.end) for one in moved.attempts] == [
                (slow.id, "Moved"),
                (fast.id, "done"),
            ]
            assert {record.outcome for record in records} == {Outcome.DONE}

            assert len(slow.scheduler.running) == 1  # its engine may still be at it
            settling.release()
            await eventually(lambda: not slow.scheduler.running)

    run_async(main())
