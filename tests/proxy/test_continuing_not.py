"""Streams that do not go on elsewhere, with continuation on and off: F6, F31, F32."""

import asyncio
import json

import pytest

from pairproxy.core.models import Outcome
from pairproxy.security.identity import short_id
from tests.core.dialects.test_splicing import ollama_chat, openai_chat, text_of
from tests.support import engine_scripts as scripts
from tests.support.fake_engine import EngineConnection, ParsedRequest, eventually
from tests.support.raw_client import RawClient
from tests.support.running import run_async
from tests.support.story import (
    ASKED,
    BEFORE,
    PROMPT,
    REPLIES,
    WORDS,
    Cluster,
    ask,
    endings,
    nodes,
    question,
    said_before,
)


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
                assert lines[0].endswith(short_id(record.attempts[-1].place.node))
        assert not any(word.strip() in caplog.text for word in ("upon", "Tell me"))

    run_async(main())
