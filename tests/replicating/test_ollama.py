"""This node's Ollama as it is asked; its answers are a stranger's."""

import json
from typing import Any

import pytest

from pairproxy.core.errors import BrokenReply, CopyFailed
from pairproxy.replicating.ollama import Ollama, PullLine
from tests.support.copying import ollama_of, reached
from tests.support.engine_scripts import LAST_CHUNK, chunk, chunked_head, json_bytes
from tests.support.fake_engine import EngineConnection, FakeEngine, ParsedRequest, Script
from tests.support.ollama_store import OllamaStore
from tests.support.running import run_async


def says(document: Any, status: int = 200) -> Script:
    """Answer everything with this."""

    async def script(request: ParsedRequest, connection: EngineConnection) -> None:
        await connection.send(json_bytes(document, status))

    return script


def test_models_and_blobs_and_names(ben: OllamaStore) -> None:
    """What is there, what is not, a second name, and none again."""

    async def main() -> None:
        async with ollama_of(ben) as (ollama, _):
            assert list(await ollama.models()) == ["own:1"]
            digest = json.loads(ben.manifest("own:1").read_bytes())["layers"][0]["digest"]
            assert await ollama.has_blob(digest)
            assert not await ollama.has_blob("sha256:" + "0" * 64)
            assert str(ben.blobs) in await ollama.modelfile("own:1")
            assert await ollama.modelfile("no:1") == ""
            await ollama.copy("own:1", "second:1")
            assert ben.names() == ["own:1", "second:1"]
            await ollama.delete("own:1")
            await ollama.delete("no:1")
            assert ben.names() == ["second:1"]
            with pytest.raises(CopyFailed, match="model not found"):
                await ollama.copy("no:1", "third:1")

    run_async(main())


@pytest.mark.parametrize("document", [{}, {"models": None}, {"models": []}])
def test_none_is_none(document: Any) -> None:
    """An Ollama without a model lists null or nothing."""

    async def main() -> dict[str, Any]:
        async with FakeEngine(says(document)) as engine, reached(engine) as upstream:
            return dict(await Ollama(upstream).models())

    assert run_async(main()) == {}


@pytest.mark.parametrize("document", [[], {"models": 5}, {"models": [{"name": 1}]}, {"models": [[]]}])
def test_a_listing_that_is_none_is_said_to_be_so(document: Any) -> None:
    """What answers there is no Ollama."""

    async def main() -> None:
        async with FakeEngine(says(document)) as engine, reached(engine) as upstream:
            with pytest.raises(BrokenReply, match="no list of its models"):
                await Ollama(upstream).models()
            assert await Ollama(upstream).modelfile("m") == ""

    run_async(main())


def test_a_listing_that_fails_is_none() -> None:
    """No model listed would look like every name being free."""

    async def main() -> None:
        async with FakeEngine(says({"models": []}, 500)) as engine, reached(engine) as upstream:
            with pytest.raises(BrokenReply, match="answered 500"):
                await Ollama(upstream).models()

    run_async(main())


@pytest.mark.parametrize(
    ("lines", "end"),
    [
        ([b'{"status":"success"}'], ""),
        ([b"no json", b'{"status":"x","total":"many"}', b'{"status":"success"}'], ""),
        ([b'{"error":"boom"}'], "boom"),
        ([b'{"status":"pulling manifest"}'], "broke off"),
        ([], "broke off"),
    ],
)
def test_a_pull_ends_with_success_or_with_a_reason(lines: list[bytes], end: str) -> None:
    """A stream that just ends is no success."""

    async def script(request: ParsedRequest, connection: EngineConnection) -> None:
        assert json.loads(request.body) == {"model": "x", "name": "x", "insecure": True, "stream": True}
        assert request.header("Host") == b"127.0.0.1"
        body = b"".join(chunk(line + b"\n") for line in lines)
        await connection.send(chunked_head() + body + LAST_CHUNK)

    async def main() -> list[PullLine]:
        async with FakeEngine(script) as engine, reached(engine) as upstream:
            return [line async for line in Ollama(upstream).pull("x")]

    if end:
        with pytest.raises(CopyFailed, match=end):
            run_async(main())
    else:
        assert [line.status for line in run_async(main())] == ["success"]


def test_a_refused_pull_says_why() -> None:
    """Before its stream begins."""

    async def main() -> None:
        async with (
            FakeEngine(says({"error": "invalid model name"}, 400)) as engine,
            reached(engine) as upstream,
        ):
            with pytest.raises(CopyFailed, match="invalid model name"):
                async for _ in Ollama(upstream).pull("x"):
                    pass

    run_async(main())
