import asyncio
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from pairproxy.core.errors import PairingFailed, StoreError
from pairproxy.core.handshake_steps import Failed, Reason
from pairproxy.peers.pairing import Granted, Keeping, Me, Report
from pairproxy.security.pairing_cards import Card
from pairproxy.security.trust import TrustStore
from tests.support.certificates import der, forge
from tests.support.pairing import is_stranger, me_of
from tests.support.pairing_table import Table


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Two machines that do not know each other."""
    return Table(tmp_path)


def block(me: Me) -> None:
    """Make it impossible to store a peer: the directory is a file from now on."""
    (me.identity.key_file.parent / "peers").rmdir()
    (me.identity.key_file.parent / "peers").write_text("")


def test_a_host_that_cannot_store_says_why_and_nobody_stores(table: Table) -> None:
    """F36: its own screen gets file and reason; the joiner hears of it and keeps nothing."""

    async def act(table: Table) -> None:
        block(table.anna)
        joined, waited = await asyncio.gather(table.join(), table.port.paired(), return_exceptions=True)
        assert isinstance(waited, StoreError)
        assert "peers" in waited.sentence
        assert isinstance(joined, PairingFailed)
        assert "could not store this machine as a peer, so nothing was stored here" in joined.sentence

    table.run(act)
    table.ben.trust.load()
    assert table.ben.trust.peers() == ()


def test_a_joiner_that_cannot_store_makes_the_host_undo(table: Table) -> None:
    """F36: the host had stored it already, and takes it back; not even a tombstone is left."""

    async def act(table: Table) -> None:
        block(table.ben)
        with pytest.raises(StoreError, match="peers"):
            await table.join()
        assert table.failures == [Failed(Reason.STORE, True, None)]

    table.run(act)
    assert is_stranger(table.anna, table.ben)


def keeping_of(me: Me, other: Me, name: str = "ben") -> Keeping:
    """An exchange in which the other's card has just been accepted."""
    keeping = Keeping(me)
    card = Card(other.identity.certificate, b"", name, True, 11634, ("127.0.0.1",))
    keeping.case.accepted = other.identity.device_id, card
    return keeping


def test_what_was_there_before_comes_back(tmp_path: Path) -> None:
    """F36: undoing leaves an older record of the same machine as it was."""
    anna, ben = me_of(tmp_path, "anna"), me_of(tmp_path, "ben")
    keeping_of(replace(anna, granted=Granted(slots=3, models=("old",))), ben).keep("127.0.0.1")
    before = anna.trust.get(ben.identity.device_id)
    again = keeping_of(replace(anna, granted=Granted(may_use_me=False)), ben, "another name")
    again.keep("127.0.0.1")
    assert anna.trust.get(ben.identity.device_id) != before
    again.undo()
    assert anna.trust.get(ben.identity.device_id) == before
    again.undo()
    assert anna.trust.get(ben.identity.device_id) == before


def test_a_forgotten_machine_is_trusted_again_only_if_the_pairing_is_whole(tmp_path: Path) -> None:
    """Storing it lifts that and says so; undoing brings it back."""
    anna, ben = me_of(tmp_path, "anna"), me_of(tmp_path, "ben")
    first = keeping_of(anna, ben)
    first.keep("127.0.0.1")
    assert not first.was_forgotten
    anna.trust.forget(ben.identity.device_id)
    again = keeping_of(anna, ben)
    again.keep("127.0.0.1")
    assert again.was_forgotten
    assert not anna.trust.was_forgotten(ben.identity.certificate)
    again.undo()
    assert anna.trust.was_forgotten(ben.identity.certificate)
    assert anna.trust.peers() == ()


def test_a_new_certificate_for_a_forgotten_key_does_not_hide_that_it_was_forgotten(tmp_path: Path) -> None:
    """The screen says so, and a pairing that comes to nothing leaves it forgotten."""
    anna, ben = me_of(tmp_path, "anna"), me_of(tmp_path, "ben")
    node = ben.identity.device_id
    keeping_of(anna, ben).keep("127.0.0.1")
    anna.trust.forget(node)
    key = serialization.load_pem_private_key(ben.identity.key_file.read_bytes(), password=None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    renewed = der(forge(subject=node, key=key)[0])
    again = keeping_of(anna, replace(ben, identity=replace(ben.identity, certificate=renewed)))
    again.keep("127.0.0.1")
    assert again.was_forgotten
    again.undo()
    assert [one.node for one in anna.trust.forgotten()] == [node]


def test_who_is_forgotten_during_a_pairing_does_not_come_back_by_breaking_it_off(tmp_path: Path) -> None:
    """A peer pairs anew, its owner changes his mind: undoing restores no trust that was taken back."""
    anna, ben = me_of(tmp_path, "anna"), me_of(tmp_path, "ben")
    node = ben.identity.device_id
    keeping_of(anna, ben).keep("127.0.0.1")
    again = keeping_of(replace(anna, granted=Granted(slots=1)), ben)
    again.keep("127.0.0.1")
    other_terminal = TrustStore(tmp_path / "anna", anna.identity.device_id)
    assert other_terminal.forget(node)
    again.undo()
    anna.trust.load()
    assert anna.trust.get(node) is None
    assert anna.trust.was_forgotten(ben.identity.certificate)


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("\x1b[2Jben\r\n", "[2Jben"),
        ("\u202eben\u2066", "ben"),
        ("n" * 10_000, "n" * 64),
        ("\x00\x07", None),
    ],
    ids=["H17-escape", "H17-bidi", "H17-long", "H17-nothing-left"],
)
def test_a_name_is_stored_so_that_it_can_be_printed(tmp_path: Path, name: str, kept: str | None) -> None:
    """H17: without control and direction characters, 64 at most; the id where nothing is left."""
    anna, ben = me_of(tmp_path, "anna"), me_of(tmp_path, "ben")
    keeping_of(anna, ben, name).keep("127.0.0.1")
    (record,) = anna.trust.peers()
    assert record.name == (kept or f"{record.node[:4]}-{record.node[4:8]}")


def test_a_name_that_does_not_fit_a_message_is_refused(table: Table) -> None:
    """H17: 10 KB are more than one message may have."""
    table.ben = replace(table.ben, card=msgspec.structs.replace(table.ben.card, name="n" * 10_000))

    async def act(table: Table) -> None:
        with pytest.raises(PairingFailed, match="nothing was stored"):
            await table.join()

    table.run(act)
    assert table.is_nothing_kept


def test_reports_cross_after_both_have_stored(table: Table) -> None:
    """Each side learns whether the other's daemon runs and reaches this one."""

    async def act(table: Table) -> None:
        on_ben, on_anna = await asyncio.gather(table.exchange(), table.port.paired())
        mine, theirs = Report(True, True), Report(False, None)
        at_ben, at_anna = await asyncio.gather(on_ben.compare(mine), on_anna.compare(theirs))
        assert (at_ben, at_anna) == (theirs, mine)
        await asyncio.gather(on_ben.close(), on_anna.close())

    table.run(act)


def test_a_side_that_leaves_before_its_report_says_nothing(table: Table) -> None:
    """And that is no failure of the pairing."""

    async def act(table: Table) -> None:
        on_ben, on_anna = await asyncio.gather(table.exchange(), table.port.paired())
        await on_ben.close()
        assert await on_anna.compare(Report(False)) is None
        assert on_anna.record is not None
        await on_anna.close()

    table.run(act)


MET = "10.0.0.9:11634"
MANY = [f"10.0.1.{number}" for number in range(16)]
NOWHERE = ("127.0.0.1", "::1", "0.0.0.0", "224.0.0.1", "240.0.0.1", "fe80::1", "169.254.169.254", "name", "")


@pytest.mark.parametrize(
    ("hosts", "port", "is_on_loopback", "kept"),
    [
        (("10.0.0.7", "fe80::1%eth0"), 11634, False, (MET, "10.0.0.7:11634", "[fe80::1%eth0]:11634")),
        (NOWHERE, 11634, False, (MET,)),
        (("192.168.1.7",), 0, False, ()),
        (("127.0.0.1", "192.168.1.7"), 11634, True, ("127.0.0.1:11634",)),
        (tuple(MANY), 11634, False, (MET, *(f"{host}:11634" for host in MANY[:15]))),
    ],
    ids=["as told", "nowhere", "port not known", "loopback", "bounded"],
)
def test_addresses_are_kept_with_the_peer_port(
    tmp_path: Path, hosts: tuple[str, ...], port: int, is_on_loopback: bool, kept: tuple[str, ...]
) -> None:
    """Where it was met comes first; what leads nowhere is left out."""
    anna, ben = me_of(tmp_path, "anna"), me_of(tmp_path, "ben")
    keeping = Keeping(replace(anna, is_on_loopback=is_on_loopback))
    card = Card(ben.identity.certificate, b"", "ben", True, port, hosts)
    keeping.case.accepted = ben.identity.device_id, card
    keeping.keep("10.0.0.9")
    assert keeping.record is not None
    assert keeping.record.addresses == kept
