"""Binding ports: what is taken says by whom, what cannot be says why, and loopback stays loopback."""

import os
import socket

import pytest

from pairproxy.core.errors import ConfigError, PortTaken
from pairproxy.proxy.listening import (
    all_or_none,
    bind,
    bind_if_free,
    bind_plain,
    is_free,
    is_pairproxy,
    port_of,
)


def close(sockets: list[socket.socket]) -> None:
    """Give the ports back."""
    for sock in sockets:
        sock.close()


def test_a_free_port_is_bound_and_listens() -> None:
    """Port 0 is any free port; a client can connect at once."""
    sockets = bind("127.0.0.1", 0, "")
    with socket.create_connection(("127.0.0.1", port_of(sockets[0])), timeout=5):
        pass
    assert len(sockets) == 1
    close(sockets)


def test_a_taken_port_says_who_has_it_and_how_to_go_on() -> None:
    """The person learns the program, its process and what to do."""
    taken = bind("127.0.0.1", 0, "")
    number = port_of(taken[0])
    said = rf"Port {number} is taken by .* \(pid {os.getpid()}\)\. Move the engine\."
    with pytest.raises(PortTaken, match=said):
        bind("127.0.0.1", number, "Move the engine.")
    close(taken)


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_port_of_ipv4_is_bound_for_both_families(host: str) -> None:
    """localhost may mean ::1 first; and F30: peers may have nothing but link-local IPv6 between them."""
    free = bind(host, 0, "")
    number = port_of(free[0])
    close(free)
    sockets = bind(host, number, "")
    try:
        families = [sock.family for sock in sockets]
        assert families[0] == socket.AF_INET
        if socket.has_ipv6 and len(families) == 2:
            assert families[1] == socket.AF_INET6
            assert port_of(sockets[1]) == number
    finally:
        close(sockets)


def test_a_twin_that_is_taken_does_not_keep_the_port_from_working(caplog: pytest.LogCaptureFixture) -> None:
    """F39: IPv4's loopback is enough; the log names who has the other, for who calls localhost may get it."""
    try:
        taken = bind("::1", 0, "")
    except ConfigError:
        pytest.skip("this machine has no IPv6")
    try:
        sockets = bind("127.0.0.1", port_of(taken[0]), "")
        assert [sock.family for sock in sockets] == [socket.AF_INET]
        close(sockets)
        (said,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        assert f"Port {port_of(taken[0])} of ::1 is taken by" in said
        assert f"(pid {os.getpid()})" in said
        assert "call 127.0.0.1" in said
    finally:
        close(taken)


def test_an_address_of_another_machine_is_a_mistake_in_the_settings() -> None:
    """One sentence with the address; no traceback."""
    with pytest.raises(ConfigError, match=r"Cannot listen on 192\.0\.2\.1:0"):
        bind("192.0.2.1", 0, "")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.4.5.6"])
def test_a_port_without_proof_stays_on_this_machine(host: str) -> None:
    """Loopback addresses are bound."""
    close(bind_plain(f"{host}:0", "engines.listen", ""))


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "192.168.1.2", "example.com"])
def test_a_port_without_proof_is_never_opened_to_others(host: str) -> None:
    """The error names the setting and what to write instead."""
    with pytest.raises(ConfigError, match=r"engines\.listen = .* Use 127\.0\.0\.1:1234"):
        bind_plain(f"{host}:1234", "engines.listen", "")


def test_ports_are_bound_together_or_not_at_all() -> None:
    """When one port is taken, those bound before it are free again."""
    (taken,) = bind("127.0.0.1", 0, "Try another.")
    kept: list[socket.socket] = []

    def bind_two() -> None:
        with all_or_none() as keep:
            kept.extend(keep(bind("127.0.0.1", 0, "Try another.")))
            keep(bind("127.0.0.1", port_of(taken), "Try another."))

    with pytest.raises(PortTaken):
        bind_two()
    assert [sock.fileno() for sock in kept] == [-1]
    with all_or_none() as keep:
        (open_one,) = keep(bind("127.0.0.1", 0, "Try another."))
    assert open_one.fileno() >= 0
    open_one.close()
    taken.close()


def test_a_port_is_had_when_it_is_free_and_looking_takes_nothing() -> None:
    """None where somebody has it, for both kinds of asking; a look leaves it to whoever comes."""
    taken = bind("127.0.0.1", 0, "")
    number = port_of(taken[0])
    assert bind_if_free("127.0.0.1", number) is None
    assert not is_free("127.0.0.1", number)
    close(taken)
    assert is_free("127.0.0.1", number)
    had = bind_if_free("127.0.0.1", number)
    assert had is not None
    assert {port_of(sock) for sock in had} == {number}
    close(had)


def test_an_address_that_this_machine_does_not_have_is_no_port_that_is_taken() -> None:
    """The error says so; nobody waits for it to become free."""
    with pytest.raises(ConfigError, match=r"Cannot listen on 192\.0\.2\.1:0"):
        bind_if_free("192.0.2.1", 0)


@pytest.mark.parametrize(
    ("command", "is_ours"),
    [
        (["/opt/bin/python", "-m", "pairproxy", "up"], True),
        (["/opt/bin/python", "/opt/bin/pairproxy", "up"], True),
        (["pairproxy.exe"], True),
        (["/opt/pairproxy/bin/ollama", "serve"], False),
        (["ollama", "serve", "pairproxy"], False),
        ([], False),
    ],
)
def test_another_pairproxy_is_told_by_its_command(command: list[str], is_ours: bool) -> None:
    """As a script and as a module; not by a directory of that name."""
    assert is_pairproxy(command) == is_ours
