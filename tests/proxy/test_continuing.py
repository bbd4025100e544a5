"""A stream that loses its node goes on at another, over real sockets: F6, F9, F10, F16, continuation on."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from pairproxy.core.models import Outcome
from pairproxy.core.rules import Rules
from tests.core.dialects.test_splicing import (
    ollama_chat,
    ollama_generate,
    openai_chat,
    openai_text,
    text_of,
)
from tests.support import engine_scripts as scripts
from tests.support.fake_engine import EngineConnection, FakeEngine, ParsedRequest, eventually
from tests.support.node import Node
from tests.support.raw_client import RawClient, RawReply, request
from tests.support.running import run_async

WORDS = ["Once", " upon", " a", " time", " there", " was", " an", " end"]
BEFORE = 3  # words that the first node says
PROMPT = 20
CHAT = {"messages": [{"role": "user", "content": "Tell me"}]}
ASKED: dict[str, dict[str, Any]] = {
    "/api/chat": CHAT,
    "/api/generate": {"prompt": "Tell me"},
    "/v1/completions": {"prompt": "Tell me", "stream": True},
    "/v1/chat/completions": {**CHAT, "stream": True},
}
REPLIES = {
    "/api/chat": ollama_chat,
    "/api/generate": ollama_generate,
    "/v1/completions": openai_text,
    "/v1/chat/completions": openai_chat,
}


def said_before(asked: ParsedRequest) -> str:
    """What a request gives an engine as the beginning of its reply."""
    body = asked.json()
    last = body["messages"][-1] if "messages" in body else {"role": "", "content": ""}
    if last["role"] == "assistant":
        return str(last["content"])
    return str(body.get("prompt", "Tell me")).removeprefix("Tell me")


class Cluster:
    """Two engines that write one story: who is asked first breaks off in its middle, the other goes on."""

    def __init__(self, then: str = "reset") -> None:
        self.then = then
        self.begun = asyncio.Event()
        self.asked: list[ParsedRequest] = []

    async def script(self, asked: ParsedRequest, connection: EngineConnection) -> None:
        """Tell the story, or what is left of it."""
        self.asked.append(asked)
        before = said_before(asked)
        count = next(number for number in range(len(WORDS)) if "".join(WORDS[:number]) == before)
        kind = "application/x-ndjson" if asked.path.startswith("/api") else "text/event-stream"
        whole = REPLIES[asked.path]("two" if before else "one", WORDS[count:], PROMPT + count)
        if before or not self.then:
            await scripts.in_chunks([whole[:100], whole[100:]], content_type=kind)(asked, connection)
            return
        cut = whole.index(json.dumps(WORDS[BEFORE]).encode())  # within a record
        await scripts.raw(scripts.chunked_head(kind) + scripts.chunk(whole[:cut]))(asked, connection)
        await self._break(connection)

    async def _break(self, connection: EngineConnection) -> None:
        self.begun.set()
        if self.then == "hang":
            await connection.peer_left()
        elif self.then == "end":
            await connection.send(scripts.LAST_CHUNK)
        elif self.then == "close":
            connection.close()
        else:
            connection.reset()


@contextlib.asynccontextmanager
async def nodes(cluster: Cluster, *, is_on: bool = True, continues: bool = True) -> AsyncIterator[Any]:
    """Anna, who may use ben, as (anna, ben, her engine, his)."""
    rules = Rules(continuation=is_on)
    async with (
        FakeEngine(cluster.script) as hers,
        FakeEngine(cluster.script) as his,
        Node(his, name="ben", engine_kind="embedded", continues=continues) as ben,
        Node(hers, rules=rules, engine_kind="embedded", continues=continues) as anna,
    ):
        await anna.pair(ben)
        yield anna, ben, hers, his


def question(path: str, **fields: Any) -> bytes:
    """A request for the story."""
    return request(f"POST {path} HTTP/1.1", json.dumps({"model": "m:1", **ASKED[path], **fields}).encode())


async def ask(node: Node, path: str, **fields: Any) -> RawReply:
    """Ask on a connection of its own."""
    async with await RawClient.open(node.port) as client:
        return await client.ask(question(path, **fields))


def endings(body: bytes) -> int:
    """How many last records a stream has."""
    return body.count(b'"done": true') + body.count(b'"done":true') + body.count(b"[DONE]")


@pytest.mark.parametrize("then", ["reset", "close", "end"])
@pytest.mark.parametrize("path", ASKED)
def test_a_stream_that_lost_its_node_is_one_reply(path: str, then: str) -> None:
    """F6, F16: cut within a record, by RST, FIN, or an end too early: one whole reply, counted once."""

    async def main() -> None:
        cluster = Cluster(then)
        async with nodes(cluster) as (anna, _, hers, his):
            async with await RawClient.open(anna.port) as client:
                reply = await client.ask(question(path))
                assert reply.is_whole
                assert text_of(reply.body) == "".join(WORDS)
                assert endings(reply.body) == 1
                assert b"error" not in reply.body
                cluster.then = ""
                assert (await client.ask(question(path))).is_whole  # the same connection serves on
            first, second = await anna.recorded(2)
            assert (first.outcome, first.continued) == (Outcome.DONE, 1)
            assert [attempt.end for attempt in first.attempts] == ["broken", "done"]
            assert len({attempt.place.node for attempt in first.attempts}) == 2
            assert (first.usage.prompt_tokens, first.usage.output_tokens) == (PROMPT, len(WORDS))
            assert (second.outcome, second.continued) == (Outcome.DONE, 0)
            assert len(hers.requests) + len(his.requests) == 3
            await eventually(lambda: len(anna.scheduler.running) == 0)

    run_async(main())


@pytest.mark.parametrize("path", ["/api/chat", "/v1/chat/completions"])
def test_the_records_after_the_loss_name_the_same_reply(path: str) -> None:
    """Every record has the first one's id, and who speaks is said once; usage is that of both."""

    async def main() -> None:
        async with nodes(Cluster()) as (anna, *_):
            body = (await ask(anna, path)).body
            if path == "/api/chat":
                last = json.loads(body.splitlines()[-1])
                assert (last["prompt_eval_count"], last["eval_count"]) == (PROMPT, len(WORDS))
                return
            found = [json.loads(one[6:]) for one in body.split(b"\n") if one.startswith(b"data: {")]
            assert {one["id"] for one in found} == {"one"}
            roles = [one for one in found if one["choices"] and "role" in one["choices"][0]["delta"]]
            assert len(roles) == 1
            used = {"prompt_tokens": PROMPT, "completion_tokens": len(WORDS)}
            assert found[-1]["usage"] == {**used, "total_tokens": PROMPT + len(WORDS)}

    run_async(main())


def test_a_node_that_falls_silent_is_gone_on_from_when_its_heartbeat_is_lost() -> None:
    """F9, F10: the stream hangs; once the node counts as lost the other one goes on."""

    async def main() -> None:
        cluster = Cluster("hang")
        async with (
            FakeEngine(cluster.script) as his,
            FakeEngine(cluster.script) as theirs,
            Node(his, name="ben", engine_kind="embedded", continues=True) as ben,
            Node(theirs, name="carla", engine_kind="embedded", continues=True) as carla,
            Node(theirs, rules=Rules(continuation=True), models=()) as anna,
        ):
            await anna.pair(ben)
            await anna.pair(carla)
            async with await RawClient.open(anna.port) as client:
                await client.send(question("/api/chat"))
                await cluster.begun.wait()
                await eventually(lambda: any(one.first_byte_at is not None for one in anna.scheduler.running))
                anna.lose((ben if his.requests else carla).identity)
                reply = await client.reply()
            assert reply.is_whole
            assert text_of(reply.body) == "".join(WORDS)
            (record,) = await anna.recorded()
            assert (record.outcome, record.continued) == (Outcome.DONE, 1)
            assert len({attempt.place.node for attempt in record.attempts}) == 2

    run_async(main())


@pytest.mark.parametrize(("is_on", "continues"), [(False, True), (True, False)], ids=["off", "not verified"])
@pytest.mark.parametrize("path", ["/api/chat", "/v1/chat/completions"])
def test_without_it_a_lost_stream_ends_as_it_does(path: str, is_on: bool, continues: bool) -> None:
    """F6: text so far, an error line on /api only, no terminator; nobody is asked for the rest."""

    async def main() -> None:
        cluster = Cluster()
        async with nodes(cluster, is_on=is_on, continues=continues) as (anna, *_):
            reply = await ask(anna, path)
            assert not reply.is_whole
            assert text_of(reply.body.partition(b'{"error')[0].rpartition(b"\n")[0] + b"\n") == "".join(
                WORDS[:3]
            )
            assert endings(reply.body) == 0
            (record,) = await anna.recorded()
            assert (record.outcome, record.continued) == (Outcome.TRUNCATED, 0)
            assert len(cluster.asked) == 1
            if is_on and path == "/api/chat":
                assert "error" in json.loads(reply.body.splitlines()[-1])

    run_async(main())


@pytest.mark.parametrize("path", ASKED)
def test_with_it_a_stream_that_loses_nothing_is_the_engines_byte_by_byte(path: str) -> None:
    """The body is untouched; only where its chunks end is ours."""

    async def main() -> None:
        async with nodes(Cluster("")) as (anna, *_):
            assert (await ask(anna, path)).body == REPLIES[path]("one", WORDS, PROMPT)

    run_async(main())


def test_what_is_no_plain_text_is_not_gone_on_with() -> None:
    """A request with tools ends where its node is lost."""

    async def main() -> None:
        cluster = Cluster()
        async with nodes(cluster) as (anna, *_):
            reply = await ask(anna, "/v1/chat/completions", tools=[{"type": "function"}])
            assert not reply.is_whole
            assert len(cluster.asked) == 1
            assert (await anna.recorded())[0].outcome is Outcome.TRUNCATED

    run_async(main())


def test_a_client_that_leaves_while_the_rest_is_written_ends_it() -> None:
    """F32: the second engine's connection is closed at once, and the outcome is cancelled."""

    async def main() -> None:
        cluster = Cluster("reset")
        going = asyncio.Event()

        async def slow(asked: ParsedRequest, connection: EngineConnection) -> None:
            if not said_before(asked):
                await cluster.script(asked, connection)
                return
            going.set()
            head = scripts.chunked_head("application/x-ndjson")
            part = scripts.chunk(ollama_chat("two", WORDS[3:], PROMPT)[:90])
            await connection.send(head + part)
            await connection.peer_left()

        async with nodes(cluster) as (anna, _, hers, his):
            hers.script = his.script = slow
            async with await RawClient.open(anna.port) as client:
                await client.send(question("/api/chat"))
                await going.wait()
                client.leave()
            (record,) = await anna.recorded()
            assert record.outcome is Outcome.CANCELLED
            await eventually(lambda: hers.open_connections + his.open_connections == 0)
            await eventually(lambda: len(anna.scheduler.running) == 0)

    run_async(main())


def test_a_second_node_that_refuses_leaves_an_honest_end() -> None:
    """Where nobody goes on after all, the client has the whole records so far and an error line."""

    async def main() -> None:
        cluster = Cluster()

        async def unwilling(asked: ParsedRequest, connection: EngineConnection) -> None:
            if said_before(asked):
                await scripts.json_reply({"error": "no"}, 400)(asked, connection)
            else:
                await cluster.script(asked, connection)

        async with nodes(cluster) as (anna, _, hers, his):
            hers.script = his.script = unwilling
            reply = await ask(anna, "/api/chat")
            *said, last = [json.loads(line) for line in reply.body.splitlines()]
            assert [one["message"]["content"] for one in said] == WORDS[:BEFORE]
            assert "error" in last
            assert not reply.is_whole
            (record,) = await anna.recorded()
            assert (record.outcome, record.continued) == (Outcome.TRUNCATED, 0)

    run_async(main())


def test_a_server_that_ends_without_done_is_not_taken_for_lost() -> None:
    """The reason was said and the message is whole: it ends as it came, and nobody is asked for more."""
    whole = openai_chat("one", WORDS, PROMPT).removesuffix(b"data: [DONE]\n\n")

    async def main() -> None:
        cluster = Cluster("")
        async with nodes(cluster) as (anna, _, hers, his):
            hers.script = his.script = scripts.in_chunks([whole], content_type="text/event-stream")
            reply = await ask(anna, "/v1/chat/completions")
            assert (reply.body, len(hers.requests) + len(his.requests)) == (whole, 1)

    run_async(main())


def test_that_it_went_on_is_logged_and_no_word_of_it(caplog: pytest.LogCaptureFixture) -> None:
    """The request's id and the node's; the text is nowhere."""

    async def main() -> None:
        with caplog.at_level("DEBUG"):
            async with nodes(Cluster()) as (anna, *_):
                await ask(anna, "/api/chat")
                (record,) = await anna.recorded()
                lines = [one.getMessage() for one in caplog.records if "goes on at" in one.getMessage()]
                assert len(lines) == 1
                assert record.id in lines[0]
        assert not any(word.strip() in caplog.text for word in ("upon", "Tell me"))

    run_async(main())
