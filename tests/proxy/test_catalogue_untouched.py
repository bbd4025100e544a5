"""Where no model of a peer is to be added, a list is the engine's own reply, byte for byte."""

from typing import Any

import pytest

from pairproxy.core.rules import Rules
from pairproxy.proxy import catalogue as module
from tests.support import engine_scripts as scripts
from tests.support.listings import BENS, MINE, get, nodes, reply, scene, tags
from tests.support.raw_client import without_hop_by_hop
from tests.support.running import run_async

pytestmark = pytest.mark.timed

ODD = (
    reply(tags(MINE)),
    reply('{"models":[ {"name":"old:1"},{"name":"NEW:1"}, {"name":"library/mine:1"} ] }\n'),
    reply("null", status=500),
    reply("", ("X", "y"), status=304, is_chunked=False),
    reply('{"error":"Unexpected endpoint or method. (GET /api/tags)"}', is_chunked=False),
    reply("not json"),
    reply(b"\x1f\x8b whatever", ("Content-Encoding", "gzip")),
    reply(tags(MINE), is_chunked=False),
)


@pytest.mark.parametrize("number", range(len(ODD)))
def test_where_nothing_is_added_the_reply_is_the_engines_byte_for_byte(number: int) -> None:
    """Status line, headers, chunks: whatever it is, also where all of the peers' models are hers, too."""

    async def main() -> None:
        bens = () if number in (0, 7) else BENS
        async with nodes(ODD[number], bens) as (anna, engine, _):
            direct, through = await get(engine.port, "/api/tags"), await get(anna.port, "/api/tags")
            assert through.status_line == direct.status_line
            assert without_hop_by_hop(through.headers) == without_hop_by_hop(direct.headers)
            assert through.raw == direct.raw

    run_async(main())


@pytest.mark.parametrize(
    "options",
    [
        {"is_merged": False},
        {"rules": Rules("local-only")},
        {"rules": Rules(local_only=("old*", "new*", "mine*"))},
    ],
    ids=["catalogue", "policy", "patterns"],
)
def test_what_a_person_keeps_here_is_not_mixed_with_what_is_there(options: dict[str, Any]) -> None:
    """catalogue = "local", the policy that uses no peer, models that may not leave: the engine's list."""

    async def main() -> None:
        async with nodes(reply(tags(MINE)), **options) as (anna, engine, _):
            assert (await get(anna.port, "/api/tags")).raw == (await get(engine.port, "/api/tags")).raw

    run_async(main())


def test_a_request_that_shall_stay_here_gets_the_engines_list() -> None:
    """X-Pairproxy-Local holds for lists, too."""
    assert scene(reply(tags(MINE)), "/api/tags", "X-Pairproxy-Local: true").body == tags(MINE).encode()


def test_a_list_beyond_all_measure_is_passed_on_as_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not held in memory to be merged."""
    monkeypatch.setattr(module, "LISTING_BYTES", 50)
    hers = tags(MINE)
    answer = scene(reply(hers), "/api/tags")
    assert answer.body == hers.encode()
    assert answer.header("Transfer-Encoding") == b"chunked"


@pytest.mark.breaks_off("its engine or its node dies in the middle")
def test_a_list_that_breaks_off_breaks_off_for_the_client() -> None:
    """Half a list is not taken for the whole and filled up."""
    broken = scripts.raw(
        scripts.chunked_head("application/json") + scripts.chunk(b'{"models":['), then="close"
    )
    answer = scene(broken, "/api/tags")
    assert (answer.body, answer.is_whole) == (b'{"models":[', False)
