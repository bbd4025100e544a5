"""Racing addresses, on a loop whose waits are real and short, and what names lead to."""

import asyncio

import pytest

from pairproxy.core.errors import NotTrusted, Unreachable, UpstreamError
from pairproxy.peers import dialling
from pairproxy.peers.addresses import MAX_ADDRESSES, Address
from pairproxy.peers.dialling import race, resolved
from tests.support.fake_engine import eventually
from tests.support.running import run_async

REFUSES = "10.0.0.9"
Info = tuple[int, int, int, str, tuple[object, ...]]
DEAD, WRONG, GOOD, SLOW = (Address(f"10.0.0.{number}", 1, "mdns") for number in (1, 2, 3, 4))


class Net:
    """What answers where: DEAD never, WRONG with another key at once, SLOW after an hour, others at once."""

    def __init__(self) -> None:
        self.dialled: list[Address] = []
        self.cancelled: list[Address] = []
        self.failed: list[tuple[Address, type[UpstreamError]]] = []

    async def dial(self, address: Address) -> None:
        self.dialled.append(address)
        if address == WRONG:
            raise NotTrusted("another key")
        if address in (DEAD, SLOW):
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                self.cancelled.append(address)
                raise
        if address.host == REFUSES:
            raise Unreachable("nobody")

    def note(self, address: Address, error: UpstreamError) -> None:
        self.failed.append((address, type(error)))


def raced(*candidates: Address) -> tuple[Address | None, Net]:
    """Who won, and what was tried."""
    net = Net()
    return run_async(race(lambda: candidates, net.dial, net.note)), net


def test_the_first_that_proves_its_key_wins_alone() -> None:
    """While the best address answers, no other is dialled."""
    winner, net = raced(GOOD, DEAD, WRONG)
    assert (winner, net.dialled) == (GOOD, [GOOD])


def test_a_dead_address_costs_a_head_start_and_is_given_up() -> None:
    """I09: the next begins beside it, and what is left when one wins is cancelled."""
    winner, net = raced(DEAD, GOOD)
    assert (winner, net.dialled, net.cancelled) == (GOOD, [DEAD, GOOD], [DEAD])


def test_another_key_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """F3, F23: it is told, the next begins at once, and the pin decides."""
    monkeypatch.setattr(dialling, "HEAD_START_S", 3600.0)
    winner, net = raced(WRONG, GOOD)
    assert (winner, net.failed) == (GOOD, [(WRONG, NotTrusted)])


def test_nobody_wins_where_nobody_is() -> None:
    """Every failure is told once."""
    refuses = [Address(REFUSES, port, "mdns") for port in (1, 2, 3)]
    winner, net = raced(*refuses)
    assert (winner, net.failed) == (None, [(one, Unreachable) for one in refuses])
    assert raced()[0] is None


def test_an_address_that_is_named_meanwhile_takes_part() -> None:
    """F26: the peer calls from its new address while the old one is still being dialled."""

    async def scene() -> tuple[Address | None, Net]:
        net, known = Net(), [DEAD]
        task = asyncio.create_task(race(lambda: known, net.dial, net.note))
        await eventually(lambda: net.dialled == [DEAD])
        known.append(GOOD)
        return await task, net

    winner, net = run_async(scene())
    assert (winner, net.dialled) == (GOOD, [DEAD, GOOD])


def test_a_race_of_ever_new_addresses_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """I12: somebody who names one after another does not keep us dialling."""
    monkeypatch.setattr(dialling, "MOST_DIALS", 20)
    ports = iter(range(1, 1000))
    net = Net()
    never = run_async(race(lambda: [Address(REFUSES, next(ports), "inbound")], net.dial, net.note))
    assert (never, len(net.dialled)) == (None, 20)


def test_announcements_without_end_leave_time_for_what_the_peer_told() -> None:
    """I12: two new forged addresses before each dial, and the one of the settings has its turn."""
    ports = iter(range(1, 1000))
    net, told = Net(), Address("10.0.0.3", 1, "static")

    def flooded() -> list[Address]:
        return [*(Address(REFUSES, next(ports), "mdns") for _ in range(2)), told]

    winner = run_async(race(flooded, net.dial, net.note))
    assert (winner, len(net.dialled)) == (told, MAX_ADDRESSES + 1)


def test_cancelling_the_race_ends_every_dial() -> None:
    """Nothing goes on behind the back of who gave up."""

    async def scene() -> Net:
        net = Net()
        task = asyncio.create_task(race(lambda: (DEAD, SLOW), net.dial, net.note))
        await eventually(lambda: len(net.dialled) == 2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return net

    assert set(run_async(scene()).cancelled) == {DEAD, SLOW}


def test_a_fault_of_ours_is_not_taken_for_a_dead_address() -> None:
    """What is no UpstreamError passes."""

    async def broken(address: Address) -> None:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        run_async(race(lambda: (GOOD,), broken, lambda *_: None))


def test_a_name_is_dialled_at_the_addresses_it_has() -> None:
    """I13: the address that worked is the winner, not the name; a name that leads nowhere is a failure."""
    winner, net = raced(Address("localhost", 2, "static"))
    assert winner is not None
    assert (winner.host in ("127.0.0.1", "::1"), winner.port, winner.source) == (True, 2, "static")
    assert net.dialled == [winner]
    nowhere = Address("no-such-host.invalid", 3, "static")
    winner, net = raced(nowhere)
    assert (winner, net.failed, net.dialled) == (None, [(nowhere, Unreachable)], [])


def test_addresses_do_not_wait_for_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """A resolver that does not answer costs its name a head start, and the addresses nothing."""

    async def scene() -> None:
        async def getaddrinfo(*_: object, **__: object) -> list[Info]:
            await asyncio.sleep(3600)
            return []

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
        net = Net()
        name = Address("slow.example", 1, "static")
        assert await race(lambda: [name, GOOD], net.dial, net.note) == GOOD

    run_async(scene())


def test_a_name_with_many_addresses_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """I13: a name server cannot make us dial a thousand machines; link-local ones come last."""

    async def scene() -> list[Address]:
        many: list[Info] = [(0, 0, 0, "", (f"10.1.{n // 250}.{n % 250}", 1)) for n in range(1000)]
        answer = [(0, 0, 0, "", ("fe80::1", 1, 0, 2)), *many[:10]] if is_small else many

        async def getaddrinfo(*_: object, **__: object) -> list[Info]:
            return answer

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
        return await resolved(Address("many.example", 1, "static"))

    is_small = False
    assert len(run_async(scene())) == MAX_ADDRESSES
    is_small = True
    assert [one.host for one in run_async(scene())][-1] == "fe80::1%2"
