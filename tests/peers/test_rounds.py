"""When a peer that is not heard is tried again, on a clock that is twenty times as fast."""

import asyncio

import pytest

from pairproxy.peers import rounds
from pairproxy.peers.rounds import Rounds
from tests.support.running import run_async

pytestmark = pytest.mark.timed

FASTER = 20.0


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifty milliseconds for each second, and no jitter."""
    for name in ("RETRY_FIRST_S", "RETRY_LONGEST_S", "LONG_GONE_S", "RETRY_RARELY_S", "HINTED_S"):
        monkeypatch.setattr(rounds, name, getattr(rounds, name) / FASTER)
    monkeypatch.setattr(rounds, "JITTER", 0.0)


async def paused_s(one: Rounds) -> float:
    """How long a pause is, in seconds of the module's constants."""
    loop = asyncio.get_running_loop()
    began_at = loop.time()
    await one.pause()
    return (loop.time() - began_at) * FASTER


def test_pauses_grow_up_to_the_longest_and_are_short_again_when_it_was_heard() -> None:
    """Each is twice the last one."""

    async def scene() -> None:
        one = Rounds(asyncio.Event())
        one.heard()
        for least_s in (0.25, 0.5, 1.0, 2.0, 4.0, 5.0):
            one.begin()
            assert await paused_s(one) >= least_s
        one.heard()
        one.begin()
        assert await paused_s(one) < rounds.RETRY_LONGEST_S * FASTER

    run_async(scene())


@pytest.mark.parametrize("is_called", [True, False])
def test_who_refuses_is_asked_rarely_unless_there_is_a_reason(is_called: bool) -> None:
    """Its own call, or an address that is named, ends the minute; not the first two seconds of it."""

    async def scene() -> None:
        named = asyncio.Event()
        one = Rounds(named)
        one.heard()
        one.begin()
        one.refused()
        asyncio.get_running_loop().call_later(0.001, one.retry if is_called else named.set)
        assert 2.0 <= await paused_s(one) < 60.0

    run_async(scene())


@pytest.mark.parametrize("has_reason", [True, False])
def test_a_flood_of_names_does_not_hurry_who_answers_nonsense(
    has_reason: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what a person or the peer itself does: then two seconds are enough."""
    if has_reason:
        monkeypatch.setattr(rounds, "RETRY_LONGEST_S", 60.0)  # longer than the test may take

    async def scene() -> None:
        named = asyncio.Event()
        one = Rounds(named)
        one.heard()
        one.begin()
        one.misunderstood()
        asyncio.get_running_loop().call_later(0.001, one.retry if has_reason else named.set)
        assert await paused_s(one) >= (2.0 if has_reason else 5.0)

    run_async(scene())


def test_what_was_named_before_a_round_is_no_reason_after_it() -> None:
    """The round has tried it."""

    async def scene() -> None:
        named = asyncio.Event()
        one = Rounds(named)
        one.heard()
        named.set()
        one.begin()
        assert not named.is_set()

    run_async(scene())
