"""What is large or deep passes through whole daemons while their heartbeats go on."""

import contextlib
import json
from pathlib import Path

import pytest

from tests.support import engine_scripts as scripts
from tests.support.daemons import Daemons, settings
from tests.support.engine_thread import in_thread
from tests.support.raw_client import RawClient, request
from tests.support.running import run_async

SIZE = 64 * 1024 * 1024
DONE = scripts.json_reply({"done": True})
LAG_S = 2.0  # 0.07 to 0.26 s on two busy cores; the state document has to come every 3 s
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"a": 1}}}
BODIES = {
    "one long message": b'{"model":"%b","messages":[{"role":"user","content":"'
    + b"x y " * (SIZE // 4)
    + b'"}]}',
    "many messages": b'{"model":"%b","messages":['
    + b",".join([b'{"role":"user","content":"hello world"}'] * (SIZE // 40))
    + b"]}",
    "an image": b'{"model":"%b","messages":[{"content":"a","images":["' + b"A" * SIZE + b'"]}]}',
    "many tools": b'{"model":"%b","messages":[],"tools":['
    + b",".join([json.dumps(TOOL).encode()] * (SIZE // 70))
    + b"]}",
    "deep": b'{"model":"%b","messages":' + b"[" * (SIZE // 2) + b"]" * (SIZE // 2) + b"}",
}


async def status_of(port: int, body: bytes) -> int:
    """What a question is answered; who is refused early does not take the rest."""
    async with await RawClient.open(port) as client:
        with contextlib.suppress(ConnectionError):
            await client.send(request(body=body))
        return (await client.reply()).status


@pytest.mark.slow
def test_large_bodies_hold_up_no_heartbeat(tmp_path: Path) -> None:
    """F45: 64 MiB of five kinds, for an engine here, a peer's, one of ours: no loop is held up for long."""
    here = in_thread(scripts.ollama({"m:1": "a" * 64}, chat=DONE, loaded=["m:1"]))
    there = in_thread(scripts.ollama({"there:1": "b" * 64}, chat=DONE, loaded=["there:1"]))
    with here as one, there as other, Daemons(tmp_path) as daemons:
        daemons.home("A", settings("ollama") + f'url = "{one.url}"\n')
        daemons.home("B", settings("ollama") + f'url = "{other.url}"\n')
        daemons.home("C", settings())
        daemons.pair("A", "B")
        a, b, c = daemons.start("A", "B", "C")
        daemons.until_connected()
        for asked, model in ((a, "m:1"), (a, "there:1"), (c, "paced:1b")):
            for name, body in BODIES.items():
                status = run_async(status_of(asked.port, body.replace(b"%b", model.encode(), 1)))
                assert status == (413 if asked is c else 200), (name, model)
                assert b.view_of(a).is_up, name
                assert a.view_of(b).is_up, name
        for node in (a, b, c):
            assert node.status().loop_lag_s < LAG_S, node.name
