import hashlib
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from pairproxy.core.errors import StoreError
from pairproxy.core.handshake import MESSAGE_BYTES
from pairproxy.security.identity import Identity, device_id_of, load_or_create
from pairproxy.security.pairing_cards import Card, CardCase, own_card
from tests.support.certificates import as_identity, der, forge

TRANSCRIPT = b"t" * 32


@pytest.fixture
def anna(tmp_path: Path) -> Identity:
    """This machine."""
    return load_or_create(tmp_path / "anna")


@pytest.fixture
def ben(tmp_path: Path) -> Identity:
    """The other one."""
    return load_or_create(tmp_path / "ben")


def case_of(identity: Identity, certificate_hash: bytes | None = None) -> CardCase:
    """What that machine shows."""
    card = own_card(identity, "ben-ws", you_may_use_me=True, peer_port=11634, hosts=("192.168.1.7",))
    return CardCase(identity, card, certificate_hash)


def test_a_card_is_accepted_with_its_proof(anna: Identity, ben: Identity) -> None:
    """What the other machine says of itself is what was sealed."""
    case = case_of(anna)
    case.accept(case_of(ben).own(TRANSCRIPT), TRANSCRIPT)
    assert case.accepted is not None
    node, card = case.accepted
    assert node == ben.device_id
    assert card.certificate == ben.certificate
    assert (card.name, card.peer_port, card.hosts) == ("ben-ws", 11634, ("192.168.1.7",))


def refused(case: CardCase, card: bytes, transcript: bytes = TRANSCRIPT) -> str:
    """What is told of a card that must not be accepted."""
    with pytest.raises(StoreError) as caught:
        case.accept(card, transcript)
    assert case.accepted is None
    assert case.problem == caught.value.sentence
    return case.problem


def test_a_proof_for_another_exchange_is_none(anna: Identity, ben: Identity) -> None:
    """H12: a signature over something else, by another key, of no bytes, or too long."""
    card = case_of(ben).own(TRANSCRIPT)
    assert "did not prove" in refused(case_of(anna), card, b"x" * 32)
    read = msgspec.json.decode(card, type=Card)
    of_anna = msgspec.json.decode(case_of(anna).own(TRANSCRIPT), type=Card)
    for signature in (of_anna.signature, b"", b"x" * 128, b"x" * 129):
        changed = msgspec.structs.replace(read, signature=signature)
        assert "did not prove" in refused(case_of(anna), msgspec.json.encode(changed))


def test_a_card_of_this_machine_itself_is_refused(anna: Identity) -> None:
    """H11: one does not pair with oneself."""
    assert "this machine itself" in refused(case_of(anna), case_of(anna).own(TRANSCRIPT))


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("CA:TRUE", "its extensions"),
        ("RSA-1024", "curve P-256"),
        ("no key ids", "its extensions"),
        ("subject of another id", "its subject"),
        ("short life", "its dates"),
    ],
)
def test_a_certificate_of_another_profile_is_refused(
    kind: str, reason: str, anna: Identity, tmp_path: Path
) -> None:
    """H11: although its owner can sign with its key."""
    rsa_key = rsa.generate_private_key(65537, 1024) if kind == "RSA-1024" else None  # noqa: S505
    first, key = forge(subject="x", key=rsa_key)
    certificate, key = forge(
        subject="another" if kind == "subject of another id" else device_id_of(der(first)),
        key=key,
        is_ca=kind == "CA:TRUE",
        has_key_ids=kind != "no key ids",
        is_wide=kind != "short life",
    )
    forged = as_identity(tmp_path / "forged", certificate, key)
    forged.key_file.chmod(0o600)
    card = msgspec.json.decode(case_of(anna).own(TRANSCRIPT), type=Card)
    card = msgspec.structs.replace(card, certificate=der(certificate))
    shown = msgspec.json.encode(card) if kind == "RSA-1024" else CardCase(forged, card).own(TRANSCRIPT)
    assert reason in refused(case_of(anna), shown)


def test_a_huge_certificate_is_not_looked_at(anna: Identity) -> None:
    """H11: one of 100 KB; the message could not even carry it."""
    card = msgspec.json.decode(case_of(anna).own(TRANSCRIPT), type=Card)
    huge = msgspec.structs.replace(card, certificate=b"\x30" * 100_000)
    assert refused(case_of(anna), msgspec.json.encode(huge))
    assert len(msgspec.json.encode(huge)) > MESSAGE_BYTES


def test_a_token_wants_one_certificate(anna: Identity, ben: Identity) -> None:
    """Another machine that knows the token's secret is refused all the same."""
    card = case_of(ben).own(TRANSCRIPT)
    case_of(anna, hashlib.sha256(ben.certificate).digest()).accept(card, TRANSCRIPT)
    assert "token" in refused(case_of(anna, hashlib.sha256(anna.certificate).digest()), card)


@pytest.mark.parametrize(
    "card",
    [
        b"",
        b"\xff\xfe",
        b"{}",
        b"[" * 4000,
        b'{"certificate":"AAAA","signature":"AAAA","name":1,"you_may_use_me":true}',
        b'{"certificate":"AAAA","signature":"AAAA","name":"x","you_may_use_me":true}',
        b'{"certificate":"AAAA","signature":"","name":"x","you_may_use_me":true,"peer_port":65536}',
    ],
)
def test_what_is_no_card_is_refused(card: bytes, anna: Identity) -> None:
    """H13: whatever the parser makes of it."""
    assert refused(case_of(anna), card)


def test_a_card_with_more_in_it_is_one_of_a_newer_version(anna: Identity, ben: Identity) -> None:
    """Fields that this version does not know are passed over."""
    card = case_of(ben).own(TRANSCRIPT)
    case_of(anna).accept(card[:-1] + b',"color":"blue"}', TRANSCRIPT)


def test_a_card_fits_a_message(ben: Identity) -> None:
    """With the longest name and as many addresses as there can be."""
    hosts = tuple(f"2001:db8:1234:5678:9abc:def0:1234:{n:04x}%wlx001122334455" for n in range(20))
    card = own_card(ben, "\U0001f600" * 64, you_may_use_me=True, peer_port=11634, hosts=hosts)
    assert len(CardCase(ben, card).own(TRANSCRIPT)) < 3500
