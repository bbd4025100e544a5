import asyncio
import json

import pytest

from pairproxy.cli.bench.budget.load import (
    LISTING,
    REPLY,
    TOKENS,
    Clients,
    NotAnswered,
    chunk,
    clients,
    document,
    is_whole,
    problem_of,
    token,
    upstream,
)
from pairproxy.cli.bench.overhead.cases import Case
from tests.cli.bench.overhead.test_building import ask


@pytest.mark.parametrize("is_stream", [False, True])
def test_clients_ask_until_all_is_answered(is_stream: bool) -> None:
    """Any number, with any number of clients, again and again; no stream is left behind."""

    async def run() -> int:
        body = Case("", "", 3, is_stream=is_stream).body("bench:latest")
        async with upstream() as engine, clients(engine, engine.port, body, 3) as asked:
            for number in (1, 3, 10):
                await asked.ask(number)
            assert not engine.streams
            return next(engine.numbers)

    assert asyncio.run(run()) == (15 if is_stream else 1)


def test_the_upstream_lists_its_model_and_knows_no_other_path() -> None:
    """What a daemon asks an engine."""

    async def run() -> tuple[tuple[int, bytes], tuple[int, bytes]]:
        async with upstream() as engine:
            return (
                await asyncio.to_thread(ask, engine.port, "GET", "/v1/models"),
                await asyncio.to_thread(ask, engine.port, "GET", "/props"),
            )

    (status, listing), (unknown, _) = asyncio.run(run())
    assert (status, json.loads(listing), unknown) == (200, LISTING, 404)


def test_a_closed_connection_is_told() -> None:
    """A proxy that ends must not be waited for."""

    async def run() -> None:
        async with upstream() as engine, clients(engine, engine.port, b"{}", 2) as asked:
            asking = asyncio.create_task(asked.ask(1_000_000))
            await asyncio.sleep(0)
            asked.asking[0].transport.close()
            await asking

    with pytest.raises(NotAnswered, match="a connection was closed"):
        asyncio.run(run())


def test_a_message_is_whole_at_its_end() -> None:
    """With a length, without a body, and chunked."""
    assert is_whole(b"GET / HTTP/1.1\r\n\r\n")
    assert not is_whole(b"GET / HTTP/1.1\r\n")
    reply = document(REPLY)
    assert is_whole(reply)
    assert not is_whole(reply[:-1])
    stream = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(token(1, is_last=True))
    assert not is_whole(stream)
    assert is_whole(stream + b"0\r\n\r\n")


def test_a_wrong_reply_is_seen() -> None:
    """Another status, or a stream that lost a token."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    tokens = [token(7, is_last=False)] * TOKENS
    assert problem_of(head + b"".join(tokens)) == ""
    assert problem_of(head + b"".join(tokens[1:])) == f"a stream had {TOKENS - 1} tokens, not {TOKENS}"
    assert "404 Not Found" in problem_of(document(None))
    assert problem_of(document(REPLY)) == ""


def test_a_request_says_how_long_it_is() -> None:
    """As every client does."""

    async def run() -> bytes:
        async with upstream() as engine:
            return Clients(engine, 80, b"{}").request

    assert asyncio.run(run()).endswith(b"Content-Length: 2\r\n\r\n{}")
