"""Rows of the fault matrix with a whole node between: its engine fails; what the origin's client sees."""

import contextlib
from collections.abc import AsyncIterator, Callable

import pytest

from pairproxy.core import queue
from pairproxy.core.events import SpeedMeasured
from pairproxy.core.models import Outcome, Usage
from tests.support import engine_scripts as scripts
from tests.support.bad_replies import CHAT, ELSEWHERE, GOOD, KINDS, LASTS, PATHS, WHOLE, WORDS, ask, begun
from tests.support.fake_engine import FakeEngine, Script, eventually
from tests.support.node import ENGINE, MODEL, Node
from tests.support.running import run_async

pytestmark = pytest.mark.timed


def measured(node: Node, rate: float) -> None:
    """Let a node know how fast it is, in tokens/s."""
    usage = Usage(prompt_tokens=500, output_tokens=500, prefill_s=0.5, decode_s=500 / rate)
    node.dispatcher.tell(SpeedMeasured(node.dispatcher.now(), ENGINE, MODEL, usage))


@contextlib.asynccontextmanager
async def behind_ben(script: Script) -> AsyncIterator[tuple[Node, Node, FakeEngine]]:
    """Anna, whose requests go to ben, for he is faster; his engine has this script: (anna, ben, hers)."""
    async with (
        FakeEngine(GOOD) as hers,
        FakeEngine(script) as his,
        Node(his, name="ben") as ben,
        Node(hers) as anna,
    ):
        measured(anna, 10.0)
        measured(ben, 1000.0)
        await anna.pair(ben)
        yield anna, ben, hers


@pytest.mark.parametrize("row", ELSEWHERE)
def test_what_a_peers_engine_does_before_its_first_byte_is_not_seen(row: str) -> None:
    """F4, F5, F11, F12, F15: ben says what it was in a word, and anna answers by herself."""
    script, expected = ELSEWHERE[row]

    async def main() -> None:
        async with behind_ben(script) as (anna, ben, hers):
            reply = await ask(anna)
            assert (reply.status, reply.is_whole, reply.body) == (200, True, WHOLE[CHAT])
            assert len(hers.requests) == 1
            (record,) = await anna.recorded()
            assert [attempt.end for attempt in record.attempts] == [expected, "done"]
            (guest,) = await ben.recorded()
            assert guest.outcome in (Outcome.FAILED, Outcome.ERROR)
            await eventually(lambda: not anna.scheduler.running and not ben.scheduler.running)

    run_async(main())


CUTS: dict[str, Callable[[str], Script]] = {
    "F6 close": lambda path: scripts.raw(begun(path), then="close"),
    "F6 reset": lambda path: scripts.raw(begun(path), then="reset"),
    "F16 no last record": lambda path: scripts.raw(begun(path), scripts.LAST_CHUNK),
    "F16 J08": lambda path: scripts.raw(
        scripts.head(200, ("Content-Type", KINDS[path])),
        WORDS[path] * 2,
        LASTS[path][:7],
        gap_s=0.01,
        then="close",
    ),
    "J06": lambda path: scripts.raw(begun(path), b"zz\r\n"),
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("row", CUTS)
def test_what_a_peers_engine_does_after_it_ends_honestly(row: str, path: str) -> None:
    """The words so far and no end; what ben could not see in HTTP, anna sees in the reply."""

    async def main() -> None:
        async with behind_ben(CUTS[row](path)) as (anna, ben, hers):
            reply = await ask(anna, path)
            assert not reply.is_whole or reply.header("Content-Length") is None
            assert reply.body.startswith(WORDS[path] * 2)
            assert scripts.LAST_CHUNK not in bytes(reply.raw)
            assert hers.requests == []
            (record,) = await anna.recorded()
            (guest,) = await ben.recorded()
            assert (record.outcome, guest.outcome) == (Outcome.TRUNCATED, Outcome.TRUNCATED)
            await eventually(lambda: not anna.scheduler.running and not ben.scheduler.running)

    run_async(main())


def test_a_guest_is_not_kept_waiting_for_an_engine_that_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """F11: its 503 goes back to the origin, which knows of other places and waits by itself."""
    monkeypatch.setattr(queue, "FULL_S", 0.1)

    async def main() -> None:
        full = scripts.raw(scripts.head(503, ("Retry-After", "7"), ("Content-Length", "0")))
        async with behind_ben(full) as (anna, ben, hers):
            hers.script = full
            reply = await ask(anna)
            assert (reply.status, "error" in reply.json()) == (503, True)
            (guest,) = await ben.recorded()
            assert guest.outcome is Outcome.ERROR
            held_s = anna.scheduler._knows.avoidance.held_back_s(
                guest.attempts[0].place, anna.dispatcher.now()
            )
            assert 5.0 < held_s <= 7.0

    run_async(main())
