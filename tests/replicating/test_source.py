"""A holder that harms, fails, or is only slow, as the receiver takes it. Its bytes are the test's."""

import asyncio
import json
from typing import Any

import pytest

from pairproxy.api.replication import CopyProgress
from pairproxy.core.errors import CopyFailed
from pairproxy.replicating import source as source_module
from pairproxy.replicating.holding import PART_BYTES
from pairproxy.replicating.source import Source
from tests.support.copying import copied, no, reached, yes
from tests.support.engine_scripts import chunk, chunked_head, head
from tests.support.fake_engine import EngineConnection, FakeEngine, ParsedRequest, Script
from tests.support.ollama_store import OllamaStore
from tests.support.running import run_async

pytestmark = pytest.mark.timed

DIGEST = "sha256:" + "a" * 64
MANIFEST = json.dumps(
    {"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": DIGEST, "size": 100}]}
).encode()


def answers(manifest: bytes = MANIFEST, part: Any = b"x" * 100) -> Script:
    """Answer the two questions; ``part`` bytes are the body of a 200, a function sends what it likes."""

    async def script(request: ParsedRequest, connection: EngineConnection) -> None:
        if request.path.endswith("/manifest"):
            await connection.send(head(200, ("Content-Length", str(len(manifest)))) + manifest)
        elif callable(part):
            await part(connection)
        else:
            await connection.send(head(200, ("Content-Length", str(len(part)))) + part)

    return script


def copied_from(script: Script, ben: OllamaStore) -> CopyProgress:
    """Try to copy m:1 from a holder of this script."""

    async def main() -> CopyProgress:
        async with FakeEngine(script) as engine, reached(engine) as upstream:
            return await copied(upstream, ben)

    return run_async(main())


async def endless(connection: EngineConnection) -> None:
    """A body that never ends."""
    await connection.send(chunked_head())
    while True:
        await connection.send(chunk(b"x" * 65536))


async def too_long(connection: EngineConnection) -> None:
    """One byte more than was asked for."""
    await connection.send(head(200, ("Content-Length", "101")) + b"x" * 101)


@pytest.mark.parametrize(
    ("manifest", "part", "why"),
    [
        (b"{}", b"", "not copied"),
        (b'{"layers":[]}', b"", "not copied"),
        (MANIFEST.replace(b'"size"', b'"urls": ["http://10.0.0.1/"], "size"'), b"", "lies elsewhere"),
        (MANIFEST.replace(b"100", b"9" * 12), b"", "free on the disk"),
        (MANIFEST, b"x" * 99, "something else than was asked for"),
        (MANIFEST, b"x" * 100, "the hash differs"),
    ],
)
def test_a_holder_that_lies_gets_nothing_installed(
    ben: OllamaStore, manifest: bytes, part: bytes, why: str
) -> None:
    """No model, no temporary name, and the sentence says what was wrong."""
    last = copied_from(answers(manifest, part), ben)
    assert last.state == "failed"
    assert why in last.error
    assert ben.names() == ["own:1"]


@pytest.mark.parametrize("part", [endless, too_long])
def test_a_part_without_end_is_cut_off(monkeypatch: pytest.MonkeyPatch, ben: OllamaStore, part: Any) -> None:
    """After the bytes that were asked for; it counts as a holder that does not answer."""
    monkeypatch.setattr(source_module, "GONE_S", 0.5)
    last = copied_from(answers(part=part), ben)
    assert last.state == "failed"
    assert "has not answered" in last.error
    assert ben.names() == ["own:1"]


REFUSED = [
    ("", "its pairproxy is older"),
    ("NotAllowed", "its pairproxy is older"),
    ("ModelNotFound", "anna: the words\x07 of it, on anna"),
    ("UseNotAllowed", "anna does not let this machine use it. On anna, `pairproxy rights` gives that right."),
    ("PeerRevoked", "anna is not paired with this machine any more"),
    ("QueueFull", "anna has no time for it now"),
]


@pytest.mark.parametrize(("kind", "why"), REFUSED)
def test_a_refusal_is_told_in_its_words(ben: OllamaStore, kind: str, why: str) -> None:
    """An older pairproxy knows no such route; control characters never reach a terminal."""

    async def script(request: ParsedRequest, connection: EngineConnection) -> None:
        body = json.dumps(
            {"error": {"message": "the words\x07 of it, on this machine", "type": "x"}}
        ).encode()
        lines = [("X-Pairproxy-Refused", kind)] if kind else []
        await connection.send(head(403, *lines, ("Content-Length", str(len(body)))) + body)

    last = copied_from(script, ben)
    assert why.replace("\x07", "") in last.error
    assert ben.pulls == []


@pytest.mark.slow
def test_a_part_that_is_lost_is_asked_for_again(ben: OllamaStore) -> None:
    """The connection breaks in the middle of it, twice; meanwhile the problem is told."""
    data = bytes(range(256)) * 4096
    told: list[str] = []
    left = [2]

    async def main() -> bytes:
        async def part(connection: EngineConnection) -> None:
            told.append(source.problem)
            left[0] -= 1
            if left[0] >= 0:
                await connection.send(head(200, ("Content-Length", str(len(data)))) + data[:1000])
                connection.reset()
            else:
                await connection.send(head(200, ("Content-Length", str(len(data)))) + data)

        async with FakeEngine(answers(part=part)) as engine, reached(engine) as upstream:
            source = Source("anna", upstream, "m:1", no)
            got = b"".join([one async for one in source.read(DIGEST, 0, len(data))])
            assert source.problem == ""
            return got

    assert run_async(main()) == data
    assert told[0] == ""
    assert told[-1] == "anna does not answer; trying again"


def test_requests_go_first(ben: OllamaStore) -> None:
    """While any runs here, parts are asked for one at a time."""
    at_once, most = [0], [0]

    async def part(connection: EngineConnection) -> None:
        at_once[0] += 1
        most[0] = max(most[0], at_once[0])
        await asyncio.sleep(0.01)
        at_once[0] -= 1
        await connection.send(head(200, ("Content-Length", "100")) + b"x" * 100)

    async def main(is_busy: Any) -> int:
        most[0] = 0
        async with FakeEngine(answers(part=part)) as engine, reached(engine) as upstream:
            source = Source("anna", upstream, "m:1", is_busy)

            async def take() -> None:
                async for _ in source.read(DIGEST, 0, 100):
                    pass

            async with asyncio.TaskGroup() as group:
                for _ in range(8):
                    group.create_task(take())
        return most[0]

    assert run_async(main(yes)) == 1
    assert 1 < run_async(main(no)) <= source_module.TURNS


def test_a_blob_is_asked_for_in_parts_that_fit(ben: OllamaStore) -> None:
    """Of PART_BYTES at most, in order, and every byte once."""
    asked: list[tuple[int, int]] = []

    async def script(request: ParsedRequest, connection: EngineConnection) -> None:
        fields = dict(one.split("=") for one in request.target.partition("?")[2].split("&"))
        start, count = int(fields["start"]), int(fields["bytes"])
        asked.append((start, count))
        await connection.send(head(200, ("Content-Length", str(count))) + b"y" * count)

    async def main() -> int:
        async with FakeEngine(script) as engine, reached(engine) as upstream:
            source = Source("anna", upstream, "a/b c:1", no)
            return sum([len(one) async for one in source.read(DIGEST, 5, 2 * PART_BYTES + 7)])

    assert run_async(main()) == 2 * PART_BYTES + 2
    assert asked == [(5, PART_BYTES), (5 + PART_BYTES, PART_BYTES), (5 + 2 * PART_BYTES, 2)]


def test_a_holder_that_is_gone_is_given_up(monkeypatch: pytest.MonkeyPatch, ben: OllamaStore) -> None:
    """With a sentence that says that it goes on another time."""
    monkeypatch.setattr(source_module, "GONE_S", 0.3)

    async def main() -> None:
        async with FakeEngine(answers()) as engine, reached(engine) as upstream:
            source = Source("anna", upstream, "m:1", no)
            engine.stop_listening()
            with pytest.raises(CopyFailed, match="goes on where it stopped"):
                async for _ in source.read(DIGEST, 0, 100):
                    pass

    run_async(main())
