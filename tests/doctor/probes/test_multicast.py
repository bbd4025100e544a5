import asyncio
import sys

import pytest

from pairproxy.core.models import NodeId
from pairproxy.doctor.probes.multicast import MOST_CARDS, cards, is_answer, question, why
from pairproxy.peers.discovery import Discovery
from tests.support.running import run_async


def test_a_question_is_no_answer_and_an_answer_names_our_service() -> None:
    """A response (bit 15) with a record, about the name that was asked for."""
    asked = question()
    answer = b"\0\0\x84\0\0\1\0\1\0\0\0\0" + asked[12:] + b"\xc0\x0c\0\x0c\0\1\0\0\0\n\0\2\xc0\x0c"
    assert (is_answer(asked), is_answer(answer)) == (False, True)
    assert not is_answer(answer.replace(b"_pairproxy", b"_otherprox"))
    assert not is_answer(answer[:6] + b"\0\0" + answer[8:])
    for length in range(12):
        assert not is_answer(answer[:length])


@pytest.mark.slow
def test_a_node_on_loopback_answers() -> None:
    """The real discovery of a node, asked by the probe; the question is a real one, too."""

    async def scene() -> tuple[str, ...]:
        running = asyncio.create_task(
            Discovery(NodeId("A" * 52), 11634, lambda *_: None, allow_loopback=True).run()
        )
        heard: tuple[str, ...] = ()
        async with asyncio.timeout(20):
            while not heard:
                (card,) = await asyncio.to_thread(cards, has_loopback=True)
                heard = card.heard
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return heard

    assert run_async(scene()) == ("127.0.0.1",)


@pytest.mark.slow
def test_no_interface_is_asked_that_is_not_there() -> None:
    """Those at which peers may be met, a bounded number, each with its network."""
    found = cards(has_loopback=False)
    assert len(found) <= MOST_CARDS
    assert all("/" in card.network and card.address for card in found)


def test_on_macos_no_route_means_no_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    """Error 65; any other is told as it is."""
    monkeypatch.setattr(sys, "platform", "darwin")
    assert why(OSError(65, "No route to host")).startswith("macOS does not let")
    assert why(OSError(101, "Network is unreachable")) == "Network is unreachable"
