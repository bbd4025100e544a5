"""Origins that a person may have told Ollama of: it judges them, and nobody but it serves them."""

import contextlib
from collections.abc import AsyncIterator

import pytest

from tests.proxy.test_cors import BOLD, CHAT, OK, OWN_WORDS, ask, told
from tests.support.fake_engine import FakeEngine
from tests.support.node import Node
from tests.support.ollama_origins import Guarded
from tests.support.raw_client import request
from tests.support.running import run_async

LINES = ["OPTIONS /api/chat HTTP/1.1", "GET /api/tags HTTP/1.1", CHAT]


@contextlib.asynccontextmanager
async def before_ollama(*allowed: str) -> AsyncIterator[tuple[Node, FakeEngine, FakeEngine]]:
    """Anna, whose Ollama lists no model, and a peer that has it: (anna, her engine, the peer's)."""
    async with (
        FakeEngine(Guarded(BOLD, *allowed)) as hers,
        FakeEngine(OK) as his,
        Node(his, name="ben") as ben,
        Node(hers, models=()) as anna,
    ):
        await anna.pair(ben)
        his.requests.clear()
        yield anna, hers, his


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("origin", ["https://evil.example", "null", "chrome-extension://abc"])
def test_a_page_that_ollama_does_not_know_gets_its_own_refusal(line: str, origin: str) -> None:
    """It judges the Host and Origin that came; no peer sees the request, and we say nothing to the page."""

    async def main() -> None:
        async with before_ollama() as (anna, hers, his):
            sent = request(line, b'{"model":"m:1"}' if line == CHAT else None, f"Origin: {origin}")
            reply = await ask(anna, sent)
            assert (reply.status, reply.body, told(reply)) == (403, b"", [])
            (seen,) = hers.requests
            assert (seen.header("Origin"), seen.header("Host")) == (origin.encode(), b"localhost")
            assert (his.requests, anna.records) == ([], ())

    run_async(main())


@pytest.mark.parametrize("line", LINES)
def test_a_page_that_a_person_let_into_ollama_is_served_by_it_alone(line: str) -> None:
    """A browser extension in OLLAMA_ORIGINS: the engine's reply, lists and words to pages, and no peer."""

    async def main() -> None:
        extension = "chrome-extension://abcdef"
        async with before_ollama(extension) as (anna, hers, his):
            body = b'{"model":"m:1"}' if line == CHAT else None
            reply = await ask(anna, request(line, body, f"Origin: {extension}", "Sec-Fetch-Site: cross-site"))
            assert (reply.status, reply.body) == (200, b"{}")
            assert told(reply) == [(n.encode(), v.encode()) for n, v in OWN_WORDS]
            assert ([one.body for one in hers.requests], his.requests) == ([body or b""], [])

    run_async(main())


@pytest.mark.parametrize(
    "headers",
    [
        ["Origin: http://localhost:x"],
        ["Origin: http://localhost:3000@evil.example"],
        ["Origin:"],
        ["Origin: chrome-extension://abc", "Origin: chrome-extension://abc"],
        ["Sec-Fetch-Site: cross-site"],
    ],
)
def test_what_no_page_says_is_not_for_ollama_to_judge(headers: list[str]) -> None:
    """It matches by prefixes, and takes an empty Origin for none."""

    async def main() -> None:
        async with before_ollama("chrome-extension://abc") as (anna, hers, his):
            reply = await ask(anna, request(CHAT, b'{"model":"m:1"}', *headers))
            assert (reply.status, reply.body, told(reply)) == (403, b"", [])
            assert (hers.requests, his.requests) == ([], [])

    run_async(main())


def test_another_host_is_refused_before_ollama_is_asked() -> None:
    """A name that was pointed here is its own page's Host: Ollama alone would have to know all our names."""

    async def main() -> None:
        async with before_ollama("http://evil.example") as (anna, hers, _):
            sent = request(CHAT, b"{}", "Origin: http://evil.example", host="evil.example")
            assert ((await ask(anna, sent)).status, hers.requests) == (403, [])

    run_async(main())


def test_an_unknown_page_may_not_read_our_errors() -> None:
    """When the engine that should judge it is gone."""

    async def main() -> None:
        gone = FakeEngine(OK)
        async with gone:
            pass
        async with Node(gone) as node:
            reply = await ask(node, request(CHAT, b'{"model":"m:1"}', "Origin: https://evil.example"))
            assert (reply.status, told(reply)) == (502, [])

    run_async(main())
