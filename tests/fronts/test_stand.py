"""Where a front stands: its port, had and given up."""

import asyncio
import socket

from pairproxy.fronts.stand import Stand
from pairproxy.service.supervised import Supervisor
from tests.support.free_ports import free_ports
from tests.support.running import run_async


def test_a_port_is_had_given_up_and_free_again() -> None:
    """The daemon knows meanwhile that it is its own: no engine is sought there."""

    async def scene() -> None:
        ours: set[int] = set()
        stand = Stand("127.0.0.1", 0, ours, Supervisor())
        assert stand.have()
        number = stand.port
        assert (ours, stand.hosts[0], number > 0) == ({number}, "127.0.0.1", True)
        assert not Stand("127.0.0.1", number, set(), Supervisor()).have()
        stand.give_up()
        assert (ours, stand.sockets, stand.is_free()) == (set(), (), True)
        assert stand.have(), "and again, at the same number"
        assert stand.port == number
        stand.close()

    run_async(scene())


def test_who_has_it_is_found_out_beside_the_loop() -> None:
    """Once; the answer is there when it is known."""

    async def scene() -> None:
        with socket.create_server(("127.0.0.1", 0)) as holder:
            stand = Stand("127.0.0.1", holder.getsockname()[1], set(), Supervisor())
            assert not stand.try_to_have()
            known = asyncio.Event()
            stand.ask_who(known.set)
            stand.ask_who(known.set)
            await asyncio.wait_for(known.wait(), 10.0)
            assert stand.holder is not None
            assert "(pid " in stand.holder.told

    run_async(scene())


def test_an_address_that_cannot_be_had_is_no_fault() -> None:
    """The log says so; the front stays closed."""

    async def scene() -> None:
        assert not Stand("192.0.2.1", free_ports(1)[0], set(), Supervisor()).try_to_have()

    run_async(scene())


def test_its_addresses_are_told_although_a_server_has_closed_its_sockets() -> None:
    """A daemon that stops is still asked for its status."""

    async def scene() -> None:
        stand = Stand("127.0.0.1", 0, set(), Supervisor())
        assert stand.have()
        hosts = stand.hosts
        for sock in stand.sockets:
            sock.close()
        assert (stand.hosts, hosts[0]) == (hosts, "127.0.0.1")
        stand.close()
        assert stand.hosts == ()

    run_async(scene())
