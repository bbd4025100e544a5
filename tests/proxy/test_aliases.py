"""A model that an engine knows by another name: its node asks by that name, and changes nothing else."""

import json

import pytest

from pairproxy.core.models import Replica
from tests.proxy.test_peer_port import OURS
from tests.support import engine_scripts as scripts
from tests.support.fake_engine import FakeEngine
from tests.support.node import MODEL, Node, identity, node_before
from tests.support.peer_calls import call
from tests.support.raw_client import RawClient, RawReply, request
from tests.support.running import run_async

ALIAS = (Replica(MODEL, "openai:1", called='Org/"M"'),)
NAME = json.dumps(ALIAS[0].called).encode()
V1 = "POST /v1/chat/completions HTTP/1.1"
BODY = '{ "messages": [{"content": "\\"model\\": ü"}],"model" :\t"m:1" , "n": 1e0 }'.encode()
RENAMED = BODY.replace(b'"m:1"', NAME)
ECHO = scripts.openai_chat([{"model": 'Org/"M"', "choices": []}])


async def ask(port: int, sent: bytes) -> RawReply:
    """One request on a connection of its own."""
    async with await RawClient.open(port) as client:
        return await client.ask(sent)


def test_the_engine_is_asked_by_its_own_name() -> None:
    """Every other byte of the body stays, its length is told anew, and the reply comes as it is."""

    async def main() -> None:
        async with node_before(ECHO, models=ALIAS) as (node, engine):
            reply = await ask(node.port, request(V1, BODY))
            assert b'"model": "Org/\\"M\\""' in reply.body
            (seen,) = engine.requests
            assert seen.body == RENAMED
            assert seen.header("Content-Length") == str(len(RENAMED)).encode()

    run_async(main())


def test_a_chunked_body_stays_chunked() -> None:
    """No length is invented for a body that had none."""
    chunked = scripts.chunk(BODY[:9]) + scripts.chunk(BODY[9:]) + scripts.LAST_CHUNK

    async def main() -> None:
        async with node_before(ECHO, models=ALIAS) as (node, engine):
            await ask(node.port, request(V1, chunked, "Transfer-Encoding: chunked"))
            (seen,) = engine.requests
            assert (seen.body, seen.header("Content-Length")) == (RENAMED, None)

    run_async(main())


def test_a_peer_renames_for_its_own_engine() -> None:
    """What travels between nodes is what the client said; only the node of the engine knows its name."""

    async def main() -> None:
        async with FakeEngine(ECHO) as engine, Node(engine, name="ben", models=ALIAS) as ben:
            await ben.open_peer_port(identity("anna"))
            async with await call(ben) as anna:
                reply = await anna.ask(request(V1, BODY, *OURS, host="pairproxy"))
            assert reply.status == 200
            (seen,) = engine.requests
            assert seen.body == RENAMED
            assert seen.header("Content-Length") == str(len(RENAMED)).encode()

    run_async(main())


def test_towards_a_peer_nothing_is_renamed() -> None:
    """Two nodes: one without an engine of its own for the model, the other with an alias."""

    async def main() -> None:
        async with (
            FakeEngine(ECHO) as hers,
            FakeEngine(ECHO) as his,
            Node(hers, name="anna", models=()) as anna,
            Node(his, name="ben", models=ALIAS) as ben,
        ):
            await anna.pair(ben)
            assert (await ask(anna.port, request(V1, BODY))).status == 200
            assert (hers.requests, [seen.body for seen in his.requests]) == ([], [RENAMED])

    run_async(main())


@pytest.mark.parametrize("body", [b'{"model":"m:1","Model":"x"}', b'{"model":"other:1"}', b'{"Model":"m:1"}'])
def test_what_is_not_meant_for_the_alias_stays_as_it_is(body: bytes) -> None:
    """Another model, and a body that says two things, go to the called engine unread."""

    async def main() -> None:
        async with node_before(ECHO, models=ALIAS) as (node, engine):
            await ask(node.port, request(V1, body))
            assert [seen.body for seen in engine.requests] == [body]

    run_async(main())


def test_without_an_alias_no_body_is_touched() -> None:
    """The usual case."""

    async def main() -> None:
        async with node_before(ECHO) as (node, engine):
            await ask(node.port, request(V1, BODY))
            assert [seen.body for seen in engine.requests] == [BODY]

    run_async(main())
