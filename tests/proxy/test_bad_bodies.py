"""Bodies that are no question, or several: group D of the bad inputs, on every path of inference."""

import base64
import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from pairproxy.config import Limits
from pairproxy.core.dialects import routes
from pairproxy.core.models import ModelName, Replica
from tests.support import engine_scripts as scripts
from tests.support.fake_engine import EngineConnection, FakeEngine, ParsedRequest
from tests.support.node import Node
from tests.support.raw_client import RawClient, request
from tests.support.running import run_async

ROWS = json.loads((Path(__file__).parent.parent / "data" / "bad_inputs_d.json").read_text())["cases"]
LARGE = {"D29", "D30", "D31", "D33"}  # a megabyte, or 100 000 chunks: once for each of two dialects
WORDS = b"the engine's own words about"
LIMITS = Limits(body_bytes=2**20)
ELSEWHERE = tuple(
    Replica(ModelName(name), "sha256:x") for name in ("m:1", "m:latest", "a:latest", "b:latest")
)


async def engine(incoming: ParsedRequest, connection: EngineConnection) -> None:
    """Say what an engine says of such bodies, and of good ones."""
    try:
        is_good = isinstance(json.loads(incoming.body)["model"], str) and "stream" not in incoming.json()
    except (ValueError, TypeError, KeyError, RecursionError):
        is_good = False
    answer = {"done": True} if is_good else {"error": f"{WORDS.decode()} {len(incoming.body)}"}
    await connection.send(scripts.json_bytes(answer, 200 if is_good else 400))


def sent_by(row: dict[str, Any], path: str) -> bytes:
    """The bytes of a row, to another path."""
    data = b"".join(
        step["t"].encode("latin-1") if "t" in step else zlib.decompress(base64.b64decode(step["z"]))
        for step in row["steps"]
    )
    line, end, rest = data.partition(b" HTTP/1.1\r\n")
    assert line == b"POST /api/chat"
    return b"POST " + path.encode() + end + rest


@pytest.mark.parametrize("path", routes.INFERENCE)
def test_the_called_engine_answers_and_no_peer_sees_it(path: str) -> None:
    """Also where only a peer has the model that such a body may mean."""

    async def main() -> None:
        async with (
            FakeEngine(engine) as here,
            FakeEngine(engine) as there,
            Node(here, limits=LIMITS, models=()) as node,
            Node(there, name="ben", models=ELSEWHERE) as peer,
        ):
            await node.pair(peer)
            for row in ROWS:
                if row["id"] in LARGE and path not in ("/api/chat", "/v1/messages"):
                    continue
                before = len(here.requests)
                async with await RawClient.open(node.port) as client:
                    data = sent_by(row, path)
                    reply = await client.ask(data)
                seen = here.requests[before:]
                assert not there.requests, row["id"]
                assert len(seen) == (0 if reply.status == 413 else 1), row["id"]
                if row["transparent"] == "same":
                    assert reply.status in row["status"], row["id"]
                if not seen:
                    assert reply.json()["error"]
                    continue
                assert seen[0].target == path
                assert data.endswith(seen[0].body) or row["id"] == "D31"
                assert reply.body == b'{"done":true}' if reply.status == 200 else WORDS in reply.body
            assert len(peer.records) == 0

    run_async(main())


@pytest.mark.parametrize("path", [path for path, row in routes.INFERENCE.items() if "paced" in row.kinds])
def test_a_good_body_goes_to_the_peer_that_has_the_model(path: str) -> None:
    """So what stays here does so for what it is."""

    async def main() -> None:
        async with (
            FakeEngine(engine) as here,
            FakeEngine(engine) as there,
            Node(here, limits=LIMITS, models=()) as node,
            Node(there, name="ben", models=ELSEWHERE) as peer,
        ):
            await node.pair(peer)
            async with await RawClient.open(node.port) as client:
                body = b'{"model":"m:1","messages":[{}],"prompt":"x","input":"x"}'
                reply = await client.ask(request(f"POST {path}?beta=true HTTP/1.1", body))
                assert (reply.status, reply.body) == (200, b'{"done":true}')
            assert [one.target for one in there.requests] == [f"{path}?beta=true"]
            assert here.requests == []

    run_async(main())
