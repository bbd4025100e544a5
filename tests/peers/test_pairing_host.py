"""The port that waits for a code, over real sockets; also with guests that know no manners."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from pairproxy.core.errors import PairingFailed
from pairproxy.core.handshake import ELEMENT_BYTES, MESSAGE_BYTES, TRIES
from pairproxy.core.handshake_steps import Failed, Reason
from pairproxy.security.pairing import Spake, new_code
from tests.support.pairing import wrong
from tests.support.pairing_table import Table
from tests.support.running import run_async

pytestmark = pytest.mark.timed

STEP_S = 0.3  # for tests of silence


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Two machines that do not know each other."""
    return Table(tmp_path)


def test_the_right_code_pairs_and_ends_the_waiting(table: Table) -> None:
    """H01: both have stored the other, with the address at which it was met; H04: the port answers closed."""

    async def act(table: Table) -> None:
        name, exchange = await asyncio.gather(table.join(), table.port.paired())
        assert (name, exchange.record and exchange.record.name) == ("anna-ws", "ben-ws")
        again = await table.raw()
        assert await again.hear() == b"Rclosed"
        await again.close()
        await exchange.close()

    table.run(act)
    for me, other in ((table.anna, table.ben), (table.ben, table.anna)):
        me.trust.load()
        record = me.trust.get(other.identity.device_id)
        assert record is not None
        assert record.certificate == other.identity.certificate
        assert record.addresses == ("127.0.0.1:11634",)
    assert table.failures == []


def test_three_wrong_codes_make_it_void(table: Table) -> None:
    """H02, H03: each is told on both sides with the tries left; then even the right one is refused."""

    async def act(table: Table) -> None:
        for left in (2, 1, 0):
            with pytest.raises(PairingFailed, match=r"the code is wrong \(\d tr"):
                await table.join(wrong(table.secret.text))
            assert table.failures[-1] == Failed(Reason.CODE, False, left)
        with pytest.raises(PairingFailed, match="no longer takes this code"):
            await table.join()
        with pytest.raises(PairingFailed, match="three times without success"):
            await table.port.paired()

    table.run(act)
    assert len(table.told) == TRIES + 1
    assert table.is_nothing_kept


def element(length: int = ELEMENT_BYTES) -> bytes:
    """An honest element, cut or lengthened."""
    return (Spake(b"x", is_host=False).start() + b"\0" * 9)[:length]


def field(y: int) -> bytes:
    """The joiner's side and any number for a point."""
    return b"A" + y.to_bytes(32, "little")


HELLO = b"pairproxy/1 "
BAD_BEGINNINGS = [
    *(pytest.param(HELLO + element(length), id=f"H06-{length}") for length in (0, 1, 20, 32, 34)),
    pytest.param(HELLO + field(1), id="H07-identity"),
    pytest.param(HELLO + field(2**255 - 18), id="H07-y=p+1"),
    pytest.param(HELLO + field(0), id="H07-zero"),
    pytest.param(HELLO + field(2), id="H07-off-curve"),
    pytest.param(HELLO + Spake(b"x", is_host=True).start(), id="H08-host-side"),
    pytest.param(b'{"hello": "world"}', id="H13-json"),
    pytest.param(b"", id="H13-empty"),
    pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="H13-http"),
    pytest.param(b"R" + b"busy", id="H13-refusal-first"),
    pytest.param(b"pairproxy/9 " + element(), id="other-version"),
]


@pytest.mark.parametrize("message", BAD_BEGINNINGS)
def test_a_beginning_that_no_honest_machine_sends_is_a_failed_try(table: Table, message: bytes) -> None:
    """H06, H07, H08, H13: refused and counted."""

    async def act(table: Table) -> None:
        raw = await table.raw()
        raw.send(message)
        rest = await raw.until_closed()
        assert rest == b"" or rest[2:3] == b"R"
        await raw.close()
        assert table.port.tries_left == TRIES - 1

    table.run(act)
    assert len(table.failures) == 1


def test_after_a_failed_try_the_right_code_is_still_good(table: Table) -> None:
    """As long as tries are left."""

    async def act(table: Table) -> None:
        raw, _ = await table.turn(b"nonsense")
        await raw.close()
        assert await table.join() == "anna-ws"
        await (await table.port.paired()).close()

    table.run(act)
    assert [failed.reason for failed in table.failures] == [Reason.BROKEN]


def test_leaving_after_the_answer_is_a_try(table: Table) -> None:
    """H05: who learns our element and goes has used one of the three."""

    async def act(table: Table) -> None:
        for left in (2, 1, 0):
            raw, answer = await table.turn(HELLO + element())
            assert answer is not None
            assert answer[:1] == b"E"
            assert table.port.tries_left == left
            await raw.close()
        with pytest.raises(PairingFailed):
            await table.port.paired()
        with pytest.raises(PairingFailed, match="no longer takes"):
            await table.join()

    table.run(act)
    assert [failed.reason for failed in table.failures] == [Reason.LOST] * TRIES
    assert table.is_nothing_kept


def test_the_hosts_answer_reflected_is_refused(table: Table) -> None:
    """H08: its own element, sent back as a confirmation, ends the exchange."""

    async def act(table: Table) -> None:
        raw = await table.raw()
        raw.send(HELLO + element())
        answer = await raw.hear()
        assert answer is not None
        raw.send(answer)
        assert await raw.hear() == b"Rbroken 2"
        await raw.close()

    table.run(act)


@pytest.mark.parametrize(
    "begun", [b"", b"\x00", b"\x00\x2dpair"], ids=["H13-nothing", "H13-half-length", "H13-half"]
)
def test_silence_ends_a_try(table: Table, begun: bytes) -> None:
    """H13: at the first step the connection is closed in time and counted; the next machine gets its turn."""

    async def act(table: Table) -> None:
        raw = await table.raw()
        raw.send_bytes(begun)
        assert await raw.until_closed() in (b"\x00\x07Rlost 2", b"\x00\x09Rbroken 2")
        await raw.close()
        assert table.port.tries_left == TRIES - 1

    table.run(act, step_s=STEP_S)


def test_silence_after_the_answer_ends_a_try(table: Table) -> None:
    """H13: at the second step too."""

    async def act(table: Table) -> None:
        raw = await table.raw()
        raw.send(HELLO + element())
        assert await raw.hear()
        assert await raw.until_closed() == b"\x00\x07Rlost 2"
        await raw.close()

    table.run(act, step_s=STEP_S)


def test_a_message_that_is_too_long_is_not_read(table: Table) -> None:
    """H13: a length of 65535 or of one byte more than may be closes at once, whatever would follow."""

    async def act(table: Table) -> None:
        for length in (65535, MESSAGE_BYTES + 1):
            raw = await table.raw()
            raw.send_bytes(length.to_bytes(2, "big") + b"x" * 100)
            assert (await raw.until_closed())[2:].startswith(b"Rbroken")
            await raw.close()
        assert table.port.tries_left == TRIES - 2

    table.run(act)


def test_who_connects_and_leaves_has_tried_nothing(table: Table) -> None:
    """A scan of ports does not use up the code."""

    async def act(table: Table) -> None:
        for _ in range(5):
            await (await table.raw()).close()
        assert await table.join() == "anna-ws"
        await (await table.port.paired()).close()

    table.run(act)
    assert table.failures == []


def test_one_exchange_at_a_time(table: Table) -> None:
    """H14: of 50 connections one has the turn, the others are told; three tries in all, and never four."""

    async def act(table: Table) -> None:
        first = await table.raw()
        first.send(HELLO + element())
        assert await first.hear()
        others = [await table.raw() for _ in range(49)]
        for one in others:
            one.send(HELLO + element())
        assert {await one.hear() for one in others} == {b"Rbusy"}
        for one in (first, *others):
            await one.close()
        for _ in range(TRIES):
            raw, answer = await table.turn(HELLO + element())
            await raw.close()
            if answer == b"Rclosed":
                break
        assert answer == b"Rclosed"
        assert table.port.tries_left == 0

    table.run(act)
    assert len(table.failures) == TRIES


def test_a_code_ends_with_its_time(table: Table) -> None:
    """H16: nobody came; the port is closed and the sentence says what to do."""
    secret = replace(new_code(), life_s=0.2)

    async def act(table: Table) -> None:
        with pytest.raises(PairingFailed, match="Nobody joined in time"):
            await table.port.paired()
        raw = await table.raw()
        assert await raw.hear() == b"Rclosed"
        await raw.close()

    table.run(act, secret=secret)

    async def late() -> None:
        with pytest.raises(ConnectionRefusedError):
            await table.raw()

    run_async(late())


def test_a_machine_that_waits_for_its_turn_is_served_within_it(table: Table) -> None:
    """A silent guest holds the turn for one step; the joiner tries again by itself and succeeds."""

    async def act(table: Table) -> None:
        silent = await table.raw()
        silent.send(HELLO + element())
        assert await silent.hear()
        assert await table.join() == "anna-ws"
        await silent.close()
        await (await table.port.paired()).close()

    table.run(act, step_s=1.0)


def test_cancelling_while_somebody_is_on_leaves_nothing(table: Table) -> None:
    """Ctrl-C in the middle of an exchange: the connection ends and nothing is stored."""

    async def act(table: Table) -> None:
        raw = await table.raw()
        raw.send(HELLO + element())
        assert await raw.hear()

    table.run(act)
    assert table.is_nothing_kept
