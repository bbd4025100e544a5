"""What a peer publishes, as it is heard: in order, checked, bounded, and refusals with their reason."""

import dataclasses

import msgspec
import pytest

from pairproxy.config import Limits
from pairproxy.core.documents import PROTOCOL, StateDocument
from pairproxy.core.errors import UpstreamError
from pairproxy.core.events import RequestArrived
from pairproxy.core.models import NodeId
from pairproxy.peers.exchange import BadDocument, Unwelcome, read_document, subscribe
from pairproxy.upstreams import Upstream
from tests.core.told import B, ask
from tests.core.told import document as told_document
from tests.support.engine_scripts import LAST_CHUNK, chunk, chunked_head, json_reply, raw
from tests.support.fake_engine import FakeEngine, Script
from tests.support.node import Address
from tests.support.running import run_async

LIMIT = Limits().state_document_bytes
GOOD = told_document(B)
ARRIVED = RequestArrived(0.0, ask("r"))


def line(document: object) -> bytes:
    """A document as it is on the wire."""
    return msgspec.json.encode(document) + b"\n"


async def heard(script: Script, count: int = 1, *, silence_s: float = 5.0) -> list[StateDocument]:
    """The first documents that B publishes by this script."""
    async with FakeEngine(script) as engine:
        upstream = Upstream(Address(engine.port), limits=Limits())
        documents = subscribe(upstream, B, silence_s, LIMIT)
        try:
            return [await anext(documents) for _ in range(count)]
        finally:
            await documents.aclose()  # type: ignore[attr-defined]
            await upstream.close()


def streamed(*parts: bytes, then: str = "hang") -> Script:
    """A stream of these parts, each a chunk."""
    return raw(chunked_head() + b"".join(chunk(part) for part in parts), then=then)


def test_documents_are_heard_as_they_come_however_they_are_cut() -> None:
    """Several in a chunk, one in several chunks: each is told once, in order."""
    texts = [line(dataclasses.replace(GOOD, sequence=number)) for number in (1, 2, 3)]
    joined = texts[0] + texts[1] + texts[2]
    got = run_async(heard(streamed(joined[:10], joined[10:400], joined[400:]), 3))
    assert [document.sequence for document in got] == [1, 2, 3]
    assert got[0] == GOOD


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (b"no json\n", "cannot be read"),
        (b'{"node":"b"}\n', "cannot be read"),
        (b"[" * 100_000 + b"\n", "cannot be read"),
        (b"\xff\xfe\n", "cannot be read"),
        (line(dataclasses.replace(GOOD, node=NodeId("c"))), "names another node"),
        (line(dataclasses.replace(GOOD, protocol=PROTOCOL + 1)), "this machine needs an update"),
        (line(dataclasses.replace(GOOD, protocol=PROTOCOL - 1)), "it needs an update"),
        (b'{"protocol":%d,"all":"else is new"}\n' % (PROTOCOL + 1), "this machine needs an update"),
    ],
)
def test_what_is_not_its_document_is_refused_with_a_reason(sent: bytes, why: str) -> None:
    """Nonsense, another node's document, another protocol: none of it is told on."""
    with pytest.raises(BadDocument, match=why):
        run_async(heard(streamed(sent)))


def test_another_answer_than_a_stream_is_refused() -> None:
    """A peer that has forgotten us answers 403."""
    with pytest.raises(BadDocument, match="403"):
        run_async(heard(json_reply({"error": "no"}, 403)))


def refusal(reason: str, protocol: int = PROTOCOL) -> Script:
    """A peer's answer that says why."""
    head = f"HTTP/1.1 403 Forbidden\r\nX-Pairproxy-Refused: {reason}\r\nX-Pairproxy-Protocol: {protocol}\r\n"
    return raw(head.encode() + b"Content-Length: 0\r\n\r\n")


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (refusal("PeerRevoked"), "it no longer trusts this machine; pair the two again"),
        (refusal("PeerNotTrusted"), "it does not trust this machine; pair the two again"),
        (refusal("UseNotAllowed"), "its owner does not let this machine use it"),
        (refusal("ProtocolDiffers", PROTOCOL + 1), "this machine needs an update"),
        (refusal("ProtocolDiffers", PROTOCOL - 1), "it needs an update"),
        (refusal("ProtocolDiffers", -1), "update pairproxy on the older"),
    ],
)
def test_a_peer_that_gives_us_nothing_says_why(script: Script, why: str) -> None:
    """F42, F41: with what a person can do about it."""
    with pytest.raises(Unwelcome, match=why):
        run_async(heard(script))


def test_what_a_newer_peer_tells_beside_is_left_out() -> None:
    """F42: within one protocol fields that are not known do no harm, missing ones have defaults."""
    newer = line(GOOD).replace(b'{"node"', b'{"new":{"field":[1]},"node"', 1)
    assert read_document(newer, GOOD.node) == GOOD
    least = {"node": "b", "name": "b", "protocol": PROTOCOL, "epoch": "1", "sequence": 1}
    old = msgspec.json.encode({**least, "is_draining": False, "waiting": 0, "engines": []})
    assert read_document(old, NodeId("b")).wanted == ()


def test_a_document_without_end_is_cut_off() -> None:
    """What exceeds the limit ends the connection instead of filling the memory."""
    with pytest.raises(UpstreamError):
        run_async(heard(streamed(*[b"x" * 65536] * 20)))


def test_silence_is_noticed() -> None:
    """A peer that is connected and says nothing is given up after the given time."""
    for script in (raw(then="hang"), streamed(line(GOOD)[:20])):
        with pytest.raises(TimeoutError):
            run_async(heard(script, silence_s=0.2))


def test_a_stream_that_ends_is_over() -> None:
    """The last document is told; then there are no more."""
    with pytest.raises(StopAsyncIteration):
        run_async(heard(raw(chunked_head() + chunk(line(GOOD)) + LAST_CHUNK), 2))
