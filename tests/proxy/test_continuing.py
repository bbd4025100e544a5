"""A stream that loses its node goes on at another, over real sockets: F6, F9, F10, F16, continuation on."""

import json

import pytest

from pairproxy.config import Limits
from pairproxy.core.models import Outcome
from pairproxy.core.rules import Rules
from tests.core.dialects.test_splicing import text_of
from tests.support import engine_scripts as scripts
from tests.support.fake_engine import EngineConnection, FakeEngine, ParsedRequest, eventually
from tests.support.node import Node
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

pytestmark = pytest.mark.timed


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


@pytest.mark.parametrize("continues", [False, True])
def test_how_much_of_a_reply_came_is_known_while_it_comes(continues: bool) -> None:
    """Whether another node could go on with it or not; nothing is counted until somebody asks."""
    line = scripts.chunk(b'{"message": {"role": "assistant", "content": "x"}, "done": false}\n')
    script = scripts.raw(scripts.chunked_head(), line, line, line, then="hang")

    async def main() -> None:
        rules = Rules(continuation=continues)
        async with (
            FakeEngine(script) as engine,
            Node(engine, rules=rules, engine_kind="embedded", continues=continues) as anna,
            await RawClient.open(anna.port) as client,
        ):
            await client.send(question("/api/chat"))

            def came() -> list[int]:
                told = [anna.dispatcher.written_of(one.attempt) for one in anna.scheduler.running]
                return [written() for written in told if written is not None]

            await eventually(lambda: came() == [3])
            client.reset()
            await anna.recorded()
            assert came() == []

    run_async(main())


@pytest.mark.parametrize("is_lost", [True, False], ids=["its heartbeat is lost", "its engine is stuck"])
def test_a_stream_that_falls_silent_goes_on_elsewhere(is_lost: bool) -> None:
    """F9, F10: once its node counts as lost, or it was silent for quiet_s, the other one goes on."""

    async def main() -> None:
        cluster = Cluster("hang")
        rules = Rules(continuation=True) if is_lost else Rules(continuation=True, quiet_s=0.1)
        async with (
            FakeEngine(cluster.script) as his,
            FakeEngine(cluster.script) as theirs,
            Node(his, name="ben", engine_kind="embedded", continues=True) as ben,
            Node(theirs, name="carla", engine_kind="embedded", continues=True) as carla,
            Node(theirs, rules=rules, models=(), limits=Limits(node_stale_s=0.1)) as anna,
        ):
            await anna.pair(ben)
            await anna.pair(carla)
            async with await RawClient.open(anna.port) as client:
                await client.send(question("/api/chat"))
                await cluster.begun.wait()
                await eventually(lambda: any(one.first_byte_at is not None for one in anna.scheduler.running))
                if is_lost:
                    anna.lose((ben if his.requests else carla).identity)
                reply = await client.reply()
            assert reply.is_whole
            assert text_of(reply.body) == "".join(WORDS)
            (record,) = await anna.recorded()
            assert (record.outcome, record.continued) == (Outcome.DONE, 1)
            assert len({attempt.place.node for attempt in record.attempts}) == 2

    run_async(main())


ERRORS = {"/api/chat": {"error": "it broke"}, "/v1/chat/completions": {"error": {"message": "it broke"}}}


async def break_with_error(asked: ParsedRequest, connection: EngineConnection) -> None:
    """Say a part of the story, then an error, and end the message properly."""
    is_ollama = asked.path == "/api/chat"
    whole = REPLIES[asked.path]("one", WORDS, PROMPT)
    said = whole[: whole.index(json.dumps(WORDS[BEFORE]).encode())]
    said = said[: said.rindex(b"\n") + 1]
    error = json.dumps(ERRORS[asked.path]).encode()
    last = error + b"\n" if is_ollama else b"data: " + error + b"\n\n"
    kind = "application/x-ndjson" if is_ollama else "text/event-stream"
    await scripts.in_chunks([said, last], content_type=kind)(asked, connection)


@pytest.mark.parametrize("path", ERRORS)
def test_an_engine_that_broke_within_its_node_is_gone_on_from(path: str) -> None:
    """F6: its face, or its runner, ends the stream with an error: another node writes the rest, unseen."""

    async def main() -> None:
        cluster = Cluster()

        async def script(asked: ParsedRequest, connection: EngineConnection) -> None:
            await (cluster.script if said_before(asked) else break_with_error)(asked, connection)

        async with nodes(cluster) as (anna, _, hers, his):
            hers.script = his.script = script
            reply = await ask(anna, path)
            assert reply.is_whole
            assert (text_of(reply.body), endings(reply.body)) == ("".join(WORDS), 1)
            assert b"error" not in reply.body
            (record,) = await anna.recorded()
            assert (record.outcome, record.continued) == (Outcome.DONE, 1)

    run_async(main())


@pytest.mark.parametrize("path", ERRORS)
def test_an_engines_error_is_told_as_it_came_where_nobody_goes_on(path: str) -> None:
    """The engine's own words and its own end of the message."""

    async def main() -> None:
        async with nodes(Cluster(), continues=False) as (anna, _, hers, his):
            hers.script = his.script = break_with_error
            reply = await ask(anna, path)
            assert reply.is_whole
            assert b"it broke" in reply.body
            assert len(hers.requests) + len(his.requests) == 1
            (record,) = await anna.recorded()
            assert record.outcome is Outcome.TRUNCATED

    run_async(main())


@pytest.mark.parametrize(("attempts", "outcome", "words"), [(3, Outcome.DONE, 8), (2, Outcome.TRUNCATED, 6)])
@pytest.mark.parametrize("path", ASKED)
def test_several_nodes_may_be_lost_as_long_as_attempts_are_left(
    path: str, attempts: int, outcome: Outcome, words: int
) -> None:
    """F6 twice: the third node ends the reply; with two attempts it is truncated after whole records."""

    async def main() -> None:
        cluster = Cluster(breaks=2)
        rules = Rules(continuation=True, attempts=attempts)
        async with (
            FakeEngine(cluster.script) as engine,
            Node(engine, name="ben", engine_kind="embedded", continues=True) as ben,
            Node(engine, name="carla", engine_kind="embedded", continues=True) as carla,
            Node(engine, rules=rules, engine_kind="embedded", continues=True) as anna,
        ):
            await anna.pair(ben)
            await anna.pair(carla)
            reply = await ask(anna, path)
            (record,) = await anna.recorded()
            said = reply.body if reply.is_whole else reply.body[: reply.body.rindex(b"\n") + 1]
            said = b"".join(line for line in said.splitlines(keepends=True) if b'{"error"' not in line)
            assert text_of(said) == "".join(WORDS[:words])
            assert (record.outcome, len(engine.requests)) == (outcome, attempts)
            assert reply.is_whole == (outcome is Outcome.DONE)
            if reply.is_whole:
                assert (record.continued, record.usage.output_tokens) == (2, len(WORDS))
                assert (record.usage.prompt_tokens, endings(reply.body)) == (PROMPT, 1)

    run_async(main())
