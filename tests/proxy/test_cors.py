"""What web pages are told is what the engine tells them, whoever answered."""

import pytest

from pairproxy.core.models import Outcome
from pairproxy.proxy import cors
from tests.support import engine_scripts as scripts
from tests.support.fake_engine import FakeEngine
from tests.support.node import Node
from tests.support.raw_client import RawClient, RawReply, request
from tests.support.running import run_async

PAGE = "http://localhost:3000"
ORIGIN = f"Origin: {PAGE}"
CHAT = "POST /api/chat HTTP/1.1"
PREFLIGHT = request(
    "OPTIONS /v1/chat/completions HTTP/1.1",
    None,
    "Origin: app://obsidian.md",
    "Access-Control-Request-Method: POST",
    "Access-Control-Request-Headers: x-stainless-timeout",
    "Access-Control-Request-Private-Network: true",
)
ANSWER = (
    b"HTTP/1.1 204 No Content\r\n"
    b"Access-Control-Allow-Headers: Authorization,Content-Type,User-Agent,Accept,X-Requested-With,"
    b"Openai-Beta,"
    b"X-Stainless-Arch,X-Stainless-Async,X-Stainless-Custom-Poll-Interval,X-Stainless-Helper-Method,"
    b"X-Stainless-Lang,X-Stainless-Os,X-Stainless-Package-Version,X-Stainless-Poll-Helper,"
    b"X-Stainless-Retry-Count,X-Stainless-Runtime,X-Stainless-Runtime-Version,X-Stainless-Timeout\r\n"
    b"Access-Control-Allow-Methods: GET,POST,PUT,PATCH,DELETE,HEAD,OPTIONS\r\n"
    b"Access-Control-Allow-Origin: app://obsidian.md\r\n"
    b"Access-Control-Max-Age: 43200\r\n"
    b"Vary: Origin\r\nVary: Access-Control-Request-Method\r\nVary: Access-Control-Request-Headers\r\n"
)
OK = scripts.ollama_chat([{"done": True}])
OWN_WORDS = ("Access-Control-Allow-Origin", "*"), ("Access-Control-Allow-Credentials", "true")
BOLD = scripts.raw(scripts.head(200, *OWN_WORDS, ("Content-Length", "2")) + b"{}")


def told(reply: RawReply) -> list[tuple[bytes, bytes]]:
    """What a reply says to a page."""
    return [(name, value) for name, value in reply.headers if name.lower().startswith((b"access-", b"vary"))]


async def ask(node: Node, sent: bytes) -> RawReply:
    """The reply of a client port."""
    async with await RawClient.open(node.port) as client:
        return await client.ask(sent)


ECHO = [(b"Access-Control-Allow-Origin", PAGE.encode()), (b"Vary", b"Origin")]


@pytest.mark.parametrize("kind", ["embedded", "paced"])
def test_a_preflight_gets_the_answer_of_ollama(kind: str) -> None:
    """Byte for byte but its Date, whatever the engine behind would say; no other header is allowed."""

    async def main() -> None:
        async with FakeEngine(BOLD) as engine, Node(engine, kind=kind) as node:
            async with await RawClient.open(node.port) as client:
                for _ in range(2):
                    await client.send(PREFLIGHT)
                    text = await client.reader.readuntil(b"\r\n\r\n")
                    before, _, date = text.partition(b"Date: ")
                    assert before == ANSWER
                    assert date.endswith(b" GMT\r\n\r\n")
            assert engine.requests == []

    run_async(main())


def test_options_of_no_page_are_answered_without_a_word_about_pages() -> None:
    """As Ollama does for every Host it knows."""

    async def main() -> None:
        async with FakeEngine(BOLD) as engine, Node(engine, kind="embedded") as node:
            for headers in ([], ["Origin: http://localhost"]):  # the second is a page of the port itself
                reply = await ask(node, request("OPTIONS / HTTP/1.1", None, *headers))
                assert (reply.status, told(reply)) == (204, [])

    run_async(main())


def test_ollama_answers_preflights_itself() -> None:
    """It may allow more, by OLLAMA_ORIGINS; only when it is gone we say what it says by default."""

    async def main() -> None:
        own = scripts.raw(
            scripts.head(204, ("Access-Control-Allow-Origin", "app://obsidian.md"), ("Vary", "X"))
        )
        async with FakeEngine(own) as engine, Node(engine) as node:
            reply = await ask(node, PREFLIGHT)
            assert told(reply) == [(b"Access-Control-Allow-Origin", b"app://obsidian.md"), (b"Vary", b"X")]
            assert engine.requests[0].header("Access-Control-Request-Headers") == b"x-stainless-timeout"
        async with Node(engine) as node, await RawClient.open(node.port) as client:
            await client.send(PREFLIGHT)
            assert (await client.reader.readuntil(b"\r\n\r\n")).startswith(ANSWER)

    run_async(main())


@pytest.mark.parametrize("line", [CHAT, "GET /api/tags HTTP/1.1"])
def test_what_ollama_says_to_a_page_stands(line: str) -> None:
    """Its replies are relayed as they are, also when they say nothing."""

    async def main() -> None:
        sent = request(line, b'{"model":"m:1"}' if line == CHAT else None, ORIGIN)
        for script, expected in ((BOLD, [(n.encode(), v.encode()) for n, v in OWN_WORDS]), (OK, [])):
            async with FakeEngine(script) as engine, Node(engine) as node:
                assert told(await ask(node, sent)) == expected
                assert engine.requests[0].header("Origin") == PAGE.encode()

    run_async(main())


@pytest.mark.parametrize("line", [CHAT, "GET /api/tags HTTP/1.1"])
def test_an_engine_of_ours_says_what_ollama_would(line: str) -> None:
    """Its server's own words are replaced where a page asks, and only there."""

    async def main() -> None:
        body = b'{"model":"m:1"}' if line == CHAT else None
        async with FakeEngine(BOLD) as engine, Node(engine, kind="embedded") as node:
            assert told(await ask(node, request(line, body, ORIGIN))) == ECHO
            assert told(await ask(node, request(line, body))) == [
                (n.encode(), v.encode()) for n, v in OWN_WORDS
            ]

    run_async(main())


@pytest.mark.parametrize("kind", ["ollama", "embedded"])
def test_what_a_peer_answers_is_said_for_this_port(kind: str) -> None:
    """The page may read it, and the peer never hears of the page."""

    async def main() -> None:
        async with (
            FakeEngine(BOLD) as hers,
            FakeEngine(OK) as his,
            Node(his, name="ben") as ben,
            Node(hers, models=(), kind=kind) as anna,
        ):
            await anna.pair(ben)
            assert told(await ask(anna, request(CHAT, b'{"model":"m:1"}', ORIGIN))) == ECHO
            assert told(await ask(anna, request(CHAT, b'{"model":"m:1"}'))) == []
            assert (len(his.requests), hers.requests) == (2, [])
            assert [his.requests[0].header(name) for name in ("Origin", "Referer")] == [None, None]

    run_async(main())


@pytest.mark.parametrize("kind", ["lmstudio", "llamacpp", "openai"])
def test_other_engines_speak_to_pages_themselves(kind: str) -> None:
    """Their rules are settings of theirs, so what a page asks stays with them: preflight, request, all."""

    async def main() -> None:
        odd = scripts.json_reply({"error": "Unexpected endpoint or method. (OPTIONS /v1/completions)"})
        async with (
            FakeEngine(odd) as hers,
            FakeEngine(OK) as his,
            Node(his, name="ben") as ben,
            Node(hers, models=(), kind=kind) as anna,
        ):
            await anna.pair(ben)
            reply = await ask(anna, request("OPTIONS /v1/completions HTTP/1.1", None, ORIGIN))
            assert (reply.status, told(reply), list(reply.json())) == (200, [], ["error"])
            reply = await ask(anna, request(CHAT, b'{"model":"m:1"}', ORIGIN))
            assert (reply.status, told(reply), list(reply.json())) == (200, [], ["error"])
            assert (len(hers.requests), his.requests) == (2, [])

    run_async(main())


@pytest.mark.parametrize("kind", ["ollama", "embedded"])
def test_a_page_may_read_our_errors(kind: str) -> None:
    """An error without the header would reach its script as a failure of the network."""

    async def main() -> None:
        async with FakeEngine(scripts.raw(then="reset")) as broken, Node(broken, kind=kind) as node:
            reply = await ask(node, request(CHAT, b'{"model":"m:1"}', ORIGIN))
            assert (reply.status, told(reply)) == (502, ECHO)
            (record,) = await node.recorded()
            assert record.outcome is Outcome.FAILED

    run_async(main())


@pytest.mark.parametrize("kind", ["embedded", "paced", "lmstudio"])
@pytest.mark.parametrize("line", ["OPTIONS /api/chat HTTP/1.1", "GET /api/tags HTTP/1.1", CHAT])
@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "chrome-extension://abc", "http://localhost:x"]
)
def test_a_strange_page_gets_nothing(kind: str, line: str, origin: str) -> None:
    """403 without a body and without a word about pages; the engine is not asked."""

    async def main() -> None:
        async with FakeEngine(BOLD) as engine, Node(engine, kind=kind) as node:
            reply = await ask(node, request(line, b"{}" if line == CHAT else None, f"Origin: {origin}"))
            assert (reply.status, reply.body, told(reply), engine.requests) == (403, b"", [], [])

    run_async(main())


def test_each_kind_has_its_rules() -> None:
    """Ollama and what wears its face say what Ollama says; the others speak for themselves."""
    kinds = ("ollama", "embedded", "paced", "lmstudio", "llamacpp", "openai", "new")
    rules = [cors.rules_for(kind) for kind in kinds]
    assert rules == [cors.Rules.RELAYED, *[cors.Rules.OURS] * 2, *[cors.Rules.KEPT] * 4]
