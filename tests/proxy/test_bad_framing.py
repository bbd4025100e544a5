"""Requests framed wrongly, with headers that are none, or endless: groups B, C and F of the bad inputs."""

import asyncio
import base64
import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from pairproxy.config import Limits
from pairproxy.proxy import leaving, server
from tests.support import engine_scripts as scripts
from tests.support.fake_engine import EngineConnection, FakeEngine, ParsedRequest
from tests.support.node import Node, identity
from tests.support.raw_client import RawClient, RawReply, request
from tests.support.running import run_async

pytestmark = pytest.mark.timed

ROWS = json.loads((Path(__file__).parent.parent / "data" / "bad_inputs_bcf.json").read_text())["cases"]
TIME = 0.1  # of the deadlines and pauses of the run that the rows come from
LIMITS = Limits(body_bytes=2**20, body_deadline_s=1.5 * TIME, body_floor_bytes_per_s=2**40, header_bytes=8190)


async def engine(incoming: ParsedRequest, connection: EngineConnection) -> None:
    """Say what an engine says of a question, of a listing, and of what is neither."""
    is_good = incoming.method == "GET" or b'"m:1"' in incoming.body
    await connection.send(scripts.json_bytes({"done": True}, 200 if is_good else 400))


def pieces_of(row: dict[str, Any]) -> list[bytes | float]:
    """What a row sends, and for how long it waits in between."""
    pieces: list[bytes | float] = []
    for step in row["steps"]:
        if "sleep" in step:
            pieces.append(step["sleep"] * TIME)
        else:
            text = (
                step["t"].encode("latin-1") if "t" in step else zlib.decompress(base64.b64decode(step["z"]))
            )
            pieces.append(text)
    return pieces


async def send(client: RawClient, row: dict[str, Any]) -> None:
    """Send a row as long as somebody takes it."""
    for piece in pieces_of(row):
        if isinstance(piece, bytes):
            client.writer.write(piece)
        else:
            await asyncio.sleep(piece)
    if row["half_close"]:
        client.half_close()


async def first_reply(client: RawClient, row: dict[str, Any]) -> RawReply | None:
    """The final answer to a row; None if the connection was closed without one."""
    try:
        reply = await client.reply()
        while reply.status == 100 or (row["first_may_be_200"] and reply.status == 200):
            reply = await client.reply()
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    return reply


@pytest.mark.parametrize("row", ROWS, ids=[f"{row['id']} {row['name']}" for row in ROWS])
def test_each_row_has_its_outcome(row: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The status of its row, at the engine what the row lets through, and nothing at a peer."""
    monkeypatch.setattr(server, "IDLE_S", 2.0 * TIME)
    monkeypatch.setattr(server, "LINGERING_S", 0.5)
    monkeypatch.setattr(leaving, "LEFT_S", leaving.LEFT_S * TIME)

    async def main() -> None:
        async with FakeEngine(engine) as here, FakeEngine(engine) as there, Node(here, limits=LIMITS) as node:
            node.reach(identity("ben"), there.port)
            async with await RawClient.open(node.port) as client:
                sending = asyncio.create_task(send(client, row))
                reply = await first_reply(client, row)
                if reply is None:
                    assert row["silent_close_ok"] or not row["status"]
                else:
                    await judge(reply, row, client)
                sending.cancel()
            served = [one for one in here.requests if b'"m:1"' in one.body]
            if row["first_may_be_200"]:  # or all of it is refused: what is broken came with it
                assert len(served) <= row["engine_requests"]
            else:
                assert row["engine_requests"] in (-1, len(served))
            assert there.requests == []

    async def judge(reply: RawReply, row: dict[str, Any], client: RawClient) -> None:
        assert reply.status in row["status"]
        if row["body"] == "json":
            assert reply.json()
        if row["conn"] == "open":
            assert (await client.ask(request("GET /api/tags HTTP/1.1", None))).status == 200
        elif row["conn"] in ("closed", "closing"):
            assert await client.end() == b""

    run_async(main())
