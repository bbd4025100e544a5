"""The invariant: no body byte of two nodes in one answer; whatever fails, wherever, however often."""

import asyncio
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pairproxy.core.models import Outcome
from tests.support import engine_scripts as scripts
from tests.support.bad_replies import CHAT, KINDS, LASTS, PATHS, SIDES, WORDS, body_of, failing
from tests.support.fake_engine import EngineConnection, ParsedRequest, eventually
from tests.support.raw_client import RawClient, RawReply, request
from tests.support.running import run_async

REFUSALS = (503, 429, 502, 404, 400)
ENDS = ("whole", "close", "reset", "garbage", "no last record")


@dataclass(frozen=True)
class Act:
    """What a place does with one request: refuses it, or sends so many records and then ends in some way."""

    status: int
    words: int
    end: str
    is_split: bool

    @property
    def is_whole(self) -> bool:
        return self.end == "whole"


acts = st.builds(
    Act, st.sampled_from((200, 200, 200, *REFUSALS)), st.integers(0, 3), st.sampled_from(ENDS), st.booleans()
)
plays = st.lists(acts, min_size=1, max_size=4)


class Actor:
    """A place that plays its acts, one a request, the last one for ever; every byte names it."""

    def __init__(self, name: bytes, path: str, play: list[Act]) -> None:
        self.name, self.path, self.play = name, path, play
        self.number = 0

    def record(self) -> bytes:
        """A record that names its place and its attempt."""
        return (
            WORDS[self.path]
            .replace(b"word", b"")
            .replace(b"{", b'{"by":"%b%d",' % (self.name, self.number), 1)
        )

    async def __call__(self, _: ParsedRequest, connection: EngineConnection) -> None:
        self.number += 1
        act = self.play[min(self.number, len(self.play)) - 1]
        if act.status != 200:
            await connection.send(
                scripts.json_bytes({"by": f"{self.name.decode()}{self.number}"}, act.status)
            )
            return
        pieces = [scripts.chunked_head(KINDS[self.path]), *[scripts.chunk(self.record())] * act.words]
        if act.is_whole:
            pieces.append(scripts.chunk(LASTS[self.path]))
        if act.end in ("whole", "no last record"):
            pieces.append(scripts.LAST_CHUNK)
        elif act.end == "garbage":
            pieces.append(b"zz\r\n")
        for piece in pieces if act.is_split else [b"".join(pieces)]:
            await connection.send(piece, gap_s=0.001 if act.is_split else 0.0)
        if act.end == "reset":
            connection.reset()
        elif act.end in ("close", "garbage"):
            connection.close()


def authors(reply: RawReply) -> set[bytes]:
    """Who wrote the body: place and number of its attempt."""
    return {part.split(b'"')[0] for part in reply.body.split(b'"by":"')[1:]}


def peers(first: str) -> set[bytes]:
    """The names of the attempts at the peer; an engine of this node may end a stream as it likes (6 g)."""
    name = b"one" if first == "peer" else b"other"
    return {b"%b%d" % (name, number) for number in range(1, 100)}


@pytest.mark.breaks_off("one of the nodes dies in the middle")
@given(path=st.sampled_from(PATHS), first=st.sampled_from(SIDES), one=plays, other=plays)
@settings(max_examples=20, deadline=None)
def test_no_answer_holds_bytes_of_two_attempts(
    path: str, first: str, one: list[Act], other: list[Act]
) -> None:
    """One author an answer; whole only with its last record; one outcome a request; no slot is left taken."""

    async def main() -> None:
        here, there = Actor(b"one", path, one), Actor(b"other", path, other)
        async with failing(first, here, there, slots=3) as (node, _, _other):
            clients = [await RawClient.open(node.port) for _ in range(3)]
            sent = request(f"POST {path} HTTP/1.1", body_of(path))
            asking = [asyncio.create_task(client.ask(sent)) for client in clients]
            done, late = await asyncio.wait(asking, timeout=0.1)
            for task in late:  # it waits for a place that is full
                task.cancel()
            for client in clients:
                client.leave()
            for task in done:
                reply = task.result()
                assert len(authors(reply)) <= 1
                if reply.is_whole and reply.status == 200 and authors(reply) & peers(first):
                    assert LASTS[path] in reply.body
            records = await node.recorded(3)
            assert len(records) == 3
            outcomes = [record.outcome for record in records]
            assert outcomes.count(Outcome.CANCELLED) <= len(late)
            await eventually(lambda: not node.scheduler.running)
            assert node.scheduler.waiting == 0

    run_async(main())


def test_the_records_of_these_tests_name_their_place() -> None:
    """What is asserted above can fail: an answer of two authors would be seen."""
    both = RawReply(b"HTTP/1.1 200 OK", [])
    for name in (b"one", b"other"):
        actor = Actor(name, CHAT, [])
        actor.number = 1
        both.chunks.append(actor.record())
    assert authors(both) == {b"one1", b"other1"}
