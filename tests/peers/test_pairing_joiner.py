"""The side where the code is typed, among machines that lie, relay, or are not there."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pairproxy.core.errors import PairingFailed
from pairproxy.core.handshake_steps import Reason, refusal
from pairproxy.peers.pairing_frames import read_frame, write_frame
from pairproxy.peers.pairing_host import opened
from pairproxy.peers.pairing_joiner import MOST_CANDIDATES, MOST_UNREACHABLE, join
from pairproxy.peers.pairing_mdns import Candidate
from pairproxy.security.pairing import Secret, Spake, read_secret
from tests.support.free_ports import free_port
from tests.support.pairing import is_stranger, me_of, wrong
from tests.support.pairing_table import Table


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Two machines that do not know each other."""
    return Table(tmp_path)


async def each(ports: list[int], asked: list[int]) -> AsyncGenerator[Candidate, None]:
    """Candidates on loopback; ``asked`` hears which were looked at."""
    for port in ports:
        asked.append(port)
        yield Candidate(("127.0.0.1",), port)


@asynccontextmanager
async def relayed(table: Table, change: Callable[[int, bytes], bytes]) -> AsyncGenerator[int, None]:
    """Somebody in between, who may change a message; its port."""
    count = 0

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        while (message := await read_frame(reader, 5.0)) is not None:
            number, count = count, count + 1
            await write_frame(writer, change(number, message))
        writer.close()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection("127.0.0.1", table.port.port)
        tasks.extend(asyncio.ensure_future(one) for one in (carry(reader, there[1]), carry(there[0], writer)))

    tasks: list[asyncio.Task[None]] = []
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await asyncio.wait(tasks, timeout=10.0)


@pytest.mark.timed
@pytest.mark.parametrize(
    "number", [n if n in (3, 4) else pytest.param(n, marks=pytest.mark.slow) for n in range(8)]
)
def test_a_relay_that_changes_a_bit_gets_nothing_stored(table: Table, number: int) -> None:
    """H09: in whichever message, the joiner keeps nothing; the host neither, unless it was the very last."""

    async def act(table: Table) -> None:
        def flip(count: int, message: bytes) -> bytes:
            return message[:-1] + bytes([message[-1] ^ 1]) if count == number else message

        async with relayed(table, flip) as port:
            with pytest.raises(PairingFailed):
                await join(table.ben, table.secret, each([port], []), table.told.append)

    table.run(act)
    assert is_stranger(table.ben, table.anna)
    assert is_stranger(table.anna, table.ben) == (number < 7)


def test_a_relay_that_only_relays_learns_nothing_that_helps(table: Table) -> None:
    """What passes it is not readable; both sides pair with each other, not with it."""
    seen: list[bytes] = []

    async def act(table: Table) -> None:
        def look(_: int, message: bytes) -> bytes:
            seen.append(message)
            return message

        async with relayed(table, look) as port:
            exchange = await join(table.ben, table.secret, each([port], []), table.told.append)
            assert exchange.record is not None
            assert exchange.record.certificate == table.anna.identity.certificate
            await asyncio.gather(exchange.close(), (await table.port.paired()).close())

    table.run(act)
    everything = b"".join(seen)
    for secret in (table.secret.password, b"anna-ws", b"ben-ws", table.ben.identity.certificate[:40]):
        assert secret not in everything


@pytest.mark.slow
def test_a_recorded_exchange_cannot_be_played_again(table: Table) -> None:
    """H15: what the joiner of a successful exchange said is refused at its confirmation by a fresh host."""
    heard: list[bytes] = []

    async def record(table: Table) -> None:
        def look(_: int, message: bytes) -> bytes:
            heard.append(message)
            return message

        async with relayed(table, look) as port:
            exchange = await join(table.ben, table.secret, each([port], []), table.told.append)
            await asyncio.gather(exchange.close(), (await table.port.paired()).close())

    table.run(record)
    node = table.ben.identity.device_id
    table.anna.trust.withdraw(node)

    async def replay(table: Table) -> None:
        raw, answer = await table.turn(heard[0])
        assert answer != heard[1]
        raw.send(heard[2])
        assert await raw.hear() == b"Rcode 2"
        await raw.close()

    table.run(replay)
    table.anna.trust.load()
    assert table.anna.trust.get(node) is None


def test_ending_the_host_after_it_has_stored_takes_that_back(table: Table) -> None:
    """Ctrl-C between the two stores: the joiner's last word never came, so neither side keeps anything."""

    async def act(table: Table) -> None:
        held = asyncio.Event()

        async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there = await asyncio.open_connection("127.0.0.1", table.port.port)
            for _ in range(3):
                await write_frame(there[1], await read_frame(reader, 5.0) or b"")
                await write_frame(writer, await read_frame(there[0], 5.0) or b"")
            await read_frame(reader, 5.0)  # the joiner's "stored"
            held.set()
            await reader.read(1)
            writer.close()

        server = await asyncio.start_server(hold, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            joining = asyncio.ensure_future(
                join(table.ben, table.secret, each([port], []), table.told.append)
            )
            await held.wait()
            table.anna.trust.load()
            table.ben.trust.load()
            assert len(table.anna.trust.peers()) == len(table.ben.trust.peers()) == 1
            await table.port.close()
            joining.cancel()
            await asyncio.wait([joining])

    table.run(act)
    assert table.is_nothing_kept


def test_a_rogue_is_passed_over_and_named(table: Table, tmp_path: Path) -> None:
    """H10: a machine that announces the nameplate without the code; the one that knows it is tried next."""
    rogue = me_of(tmp_path, "rogue")

    async def act(table: Table) -> None:
        guess = read_secret(wrong(table.secret.text))
        async with opened(rogue, guess, lambda failed: None) as impostor:
            exchange = await join(
                table.ben, table.secret, each([impostor.port, table.port.port], []), table.told.append
            )
            await asyncio.gather(exchange.close(), (await table.port.paired()).close())

    table.run(act)
    assert len(table.told) == 1
    assert "the code is wrong" in table.told[0]
    assert is_stranger(table.ben, rogue)
    assert is_stranger(rogue, table.ben)


async def _answer_blindly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A rogue that goes on without knowing the code: an element, then a confirmation of zeros."""
    await read_frame(reader, 5.0)
    await write_frame(writer, b"E" + Spake(b"a guess", is_host=True).start())
    await read_frame(reader, 5.0)
    await write_frame(writer, b"K" + bytes(32) + b"card")
    await reader.read(100)
    writer.close()


def test_at_most_three_impostors_get_a_guess(table: Table) -> None:
    """H10: the joiner says that they do not know the code, and asks no fourth."""

    async def act(table: Table) -> None:
        server = await asyncio.start_server(_answer_blindly, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            asked: list[int] = []
            with pytest.raises(PairingFailed, match=r"does not know this code.*someone else"):
                await join(table.ben, table.secret, each([port] * 9, asked), table.told.append)
            assert len(asked) == MOST_CANDIDATES

    table.run(act)
    assert table.is_nothing_kept


def test_who_was_told_a_confirmation_cannot_be_busy_to_get_another(table: Table) -> None:
    """H10: each confirmation checks a guess, so "busy" after one ends the try: one guess a machine."""
    confirmations: list[bytes | None] = []

    async def ask_again(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_frame(reader, 5.0)
        await write_frame(writer, b"E" + Spake(b"a guess", is_host=True).start())
        confirmations.append(await read_frame(reader, 5.0))
        await write_frame(writer, refusal(Reason.BUSY))
        writer.close()

    async def act(table: Table) -> None:
        server = await asyncio.start_server(ask_again, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(PairingFailed):
                await join(table.ben, table.secret, each([port], []), table.told.append)

    table.run(act)
    assert len(confirmations) == 1


def test_addresses_that_do_not_answer_are_bounded(table: Table) -> None:
    """And the sentence says what may be the reason."""

    async def act(table: Table) -> None:
        asked: list[int] = []
        with pytest.raises(PairingFailed, match="firewall"):
            await join(table.ben, table.secret, each([free_port()] * 20, asked), table.told.append)
        assert len(asked) == MOST_UNREACHABLE

    table.run(act)


def test_nobody_there_says_what_to_do(table: Table) -> None:
    """With the option for networks without multicast."""

    async def act(table: Table) -> None:
        with pytest.raises(PairingFailed, match="add --at"):
            await join(table.ben, table.secret, each([], []), table.told.append)

    table.run(act)


def test_a_machine_does_not_pair_with_itself(table: Table) -> None:
    """H11: told as such, not as a fault of the code."""

    async def act(table: Table) -> None:
        with pytest.raises(PairingFailed, match="this machine itself"):
            await join(table.anna, table.secret, each([table.port.port], []), table.told.append)

    table.run(act)


def test_a_token_for_another_certificate_is_refused(table: Table) -> None:
    """Somebody who stole the token's secret, but is another machine, is not believed."""

    async def act(table: Table) -> None:
        code = table.secret
        token = Secret(code.nameplate, code.password, code.text, 60.0, certificate_hash=bytes(32))
        with pytest.raises(PairingFailed, match="than the token names"):
            await join(table.ben, token, each([table.port.port], []), table.told.append)

    table.run(act)
    assert table.is_nothing_kept


def test_a_machine_that_pretends_to_have_failed_does_not_hide_the_right_one(table: Table) -> None:
    """An impostor's word that it could not store is not believed: the next candidate is asked."""

    async def pretend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_frame(reader, 5.0)
        await write_frame(writer, b"Rstore")
        await reader.read(100)
        writer.close()

    async def act(table: Table) -> None:
        server = await asyncio.start_server(pretend, "127.0.0.1", 0)
        async with server:
            ports = [server.sockets[0].getsockname()[1], table.port.port]
            exchange = await join(table.ben, table.secret, each(ports, []), table.told.append)
            await asyncio.gather(exchange.close(), (await table.port.paired()).close())

    table.run(act)
