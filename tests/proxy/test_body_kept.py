"""A body is kept as long as another node may have to be sent it, and no longer."""

import gc
import json

import pytest

from pairproxy.proxy.body import Kept
from pairproxy.upstreams import Outgoing
from tests.support.bad_replies import CHAT, alone, begun, body_of
from tests.support.engine_scripts import raw
from tests.support.fake_engine import eventually
from tests.support.peer_calls import ben_trusting_anna, call, sent
from tests.support.raw_client import RawClient, request
from tests.support.running import run_async


def bodies() -> list[bytes | None]:
    """Of requests that are in memory now to be sent, or to be sent again."""
    kept = [one.body for one in gc.get_objects() if isinstance(one, Kept) and one.body]
    sent = [one.body for one in gc.get_objects() if isinstance(one, Outgoing) and isinstance(one.body, bytes)]
    return [one for one in (*kept, *sent) if b"messages" in one]


@pytest.mark.breaks_off("the engine hangs")
@pytest.mark.parametrize("side", ["engine", "peer"])
def test_while_a_reply_runs_its_request_is_gone(side: str) -> None:
    """It may be megabytes, and the reply takes minutes."""

    async def main() -> None:
        async with (
            alone(side, raw(begun(CHAT), then="hang")) as (node, _),
            await RawClient.open(node.port) as client,
        ):
            await client.send(request(f"POST {CHAT} HTTP/1.1", body_of(CHAT)))
            reply = await client.head()
            await client.chunk(reply)
            assert bodies() == []

    run_async(main())


def test_until_it_begins_its_request_is_there() -> None:
    """Another node may have to be sent it."""

    async def main() -> None:
        async with (
            alone("engine", raw(then="hang")) as (node, engine),
            await RawClient.open(node.port) as client,
        ):
            await client.send(request(f"POST {CHAT} HTTP/1.1", body_of(CHAT)))
            await eventually(lambda: bool(engine.requests))
            assert body_of(CHAT) in bodies()

    run_async(main())


@pytest.mark.breaks_off("the engine hangs")
def test_while_a_reply_to_a_peer_runs_its_request_is_gone() -> None:
    """Of its body its share of the memory here is taken all the same."""

    async def main() -> None:
        async with ben_trusting_anna(raw(begun(CHAT), then="hang")) as (ben, _), await call(ben) as client:
            await client.send(sent(json.loads(body_of(CHAT)), path=CHAT))
            reply = await client.head()
            await client.chunk(reply)
            assert bodies() == []

    run_async(main())
