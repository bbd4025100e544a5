"""What the asked node tells is passed on, believed little; a lost connection is tried again."""

from typing import Any

import msgspec
import pytest

from pairproxy.api.replication import CopyProgress, CopyWish
from pairproxy.core.errors import CopyFailed, UpstreamError
from pairproxy.replicating import relaying as relaying_module
from pairproxy.replicating.relaying import TRIES, WISH_PATH, Relaying
from tests.support.copying import Heard, reached
from tests.support.engine_scripts import LAST_CHUNK, chunk, chunked_head, head
from tests.support.fake_engine import EngineConnection, FakeEngine, ParsedRequest, Script
from tests.support.running import run_async

pytestmark = pytest.mark.timed


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pauses of a real one are seconds."""
    monkeypatch.setattr(relaying_module, "PAUSE_S", 0.01)
    monkeypatch.setattr(relaying_module, "SILENCE_S", 0.5)


def line(**fields: Any) -> bytes:
    """As the other node writes it."""
    told = {"node": "BEN", "state": "copying", "model": "x:1", "peer": "anna", "is_to_here": True} | fields
    return msgspec.json.encode(told) + b"\n"


def told_by(script: Script, heard: Heard | None = None) -> list[CopyProgress]:
    """Wish for a model at a node of this script; what this node tells."""
    heard = heard or Heard()

    async def main() -> None:
        async with FakeEngine(script) as engine, reached(engine) as upstream:
            await Relaying("ANNA", "ben", upstream, CopyWish("M:1", to="BEN", limit_bytes_per_s=7)).run(heard)  # type: ignore[arg-type]

    run_async(main())
    return heard.lines


def says(*lines: bytes, end: bytes = LAST_CHUNK) -> Script:
    """Answer with these lines; without an end the connection breaks there."""

    async def script(request: ParsedRequest, connection: EngineConnection) -> None:
        assert (request.method, request.target) == ("POST", WISH_PATH)
        assert request.json() == {"model": "M:1", "limit_bytes_per_s": 7}
        await connection.send(chunked_head() + b"".join(map(chunk, lines)) + end)
        if not end:
            connection.reset()

    return script


def test_lines_are_told_as_this_node_sees_it() -> None:
    """Its own id, the name under which it knows the other, its own spelling of the model."""
    first, last = told_by(says(line(done_bytes=5, total_bytes=10), line(state="done", done_bytes=10)))
    assert (first.node, first.peer, first.model, first.is_to_here) == ("ANNA", "ben", "m:1", False)
    assert (first.done_bytes, first.total_bytes, last.state) == (5, 10, "done")


def test_its_words_are_marked_as_its_own_and_cannot_write_on_a_terminal() -> None:
    """ "This machine" in them is the other one."""
    (last,) = told_by(
        says(line(state="failed", error="the disk\x1b[2J of this machine is full" + "!" * 5000))
    )
    assert last.error.startswith("ben: the disk[2J of ben is full!!")
    assert len(last.error) < 600


@pytest.mark.parametrize(
    "bad",
    [
        b"no json\n",
        b"[]\n",
        line(state="unheard of"),
        line(done_bytes=-1),
        line(total_bytes=1.5),
        line(bytes_per_s="fast"),
        b"[" * 5000 + b"\n",
    ],
)
def test_what_is_no_line_ends_it(bad: bytes) -> None:
    """As another version, or somebody who tries things, would write it."""
    *_, last = told_by(says(line(), bad))
    assert last.state == "failed"
    assert "speaks in another way" in last.error
    with pytest.raises(CopyFailed, match="speaks in another way"):
        told_by(says(bad))


def test_a_line_without_end_is_cut_off() -> None:
    """It counts as a connection that was lost, and is not asked for ever."""
    *_, last = told_by(says(line(), b"x" * 100_000))
    assert last.state == "failed"


def test_a_connection_that_is_lost_is_tried_again() -> None:
    """The other side goes on where it stopped; meanwhile the problem is told."""
    number = [0]

    async def script(request: ParsedRequest, connection: EngineConnection) -> None:
        number[0] += 1
        if number[0] < 3:
            await says(line(done_bytes=number[0]), end=b"")(request, connection)
        else:
            await says(line(state="done"))(request, connection)

    lines = told_by(script)
    assert [one.done_bytes for one in lines] == [1, 1, 2, 2, 0]
    assert [bool(one.problem) for one in lines] == [False, True, False, True, False]
    assert lines[-1].state == "done"


def test_it_is_not_tried_for_ever() -> None:
    """The sentence says that nothing is lost."""
    asked: list[int] = []

    async def script(request: ParsedRequest, connection: EngineConnection) -> None:
        asked.append(1)
        await says(line(), end=b"")(request, connection)

    *_, last = told_by(script)
    assert len(asked) == TRIES
    assert (last.state, last.problem) == ("failed", "")
    assert "goes on where it stopped" in last.error


@pytest.mark.slow
def test_silence_is_a_lost_connection() -> None:
    """Whoever copies tells something twice a second."""

    async def script(request: ParsedRequest, connection: EngineConnection) -> None:
        await connection.send(chunked_head() + chunk(line()))
        await connection.peer_left()

    *_, last = told_by(script)
    assert "The connection to ben was lost" in last.error


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("NotAllowed", "its pairproxy is older"),
        ("CopyFailed", "ben: its owner has not allowed"),
        ("QueueFull", "no time for it now"),
    ],
)
def test_a_refusal_before_the_first_line_is_raised(kind: str, why: str) -> None:
    """So that the command gets it as its answer."""

    async def script(request: ParsedRequest, connection: EngineConnection) -> None:
        body = b'{"error":{"message":"its owner has not allowed it","type":"x","code":null}}'
        fields = ("X-Pairproxy-Refused", kind), ("Content-Length", str(len(body)))
        await connection.send(head(403, *fields) + body)

    with pytest.raises(CopyFailed, match=why):
        told_by(script)


def test_a_node_that_is_not_there_is_said_at_once() -> None:
    """Nothing began, so nothing goes on by itself."""

    async def main() -> None:
        async with FakeEngine(says()) as engine, reached(engine) as upstream:
            engine.stop_listening()
            with pytest.raises(UpstreamError, match="ben cannot be reached"):
                await Relaying("ANNA", "ben", upstream, CopyWish("M:1", to="BEN")).run(Heard())  # type: ignore[arg-type]

    run_async(main())
