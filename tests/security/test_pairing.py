import re

import pytest
from cryptography.exceptions import InvalidTag
from spake2.ed25519_basic import Base, L

from pairproxy.core.errors import ConfigError
from pairproxy.core.handshake import ELEMENT_BYTES
from pairproxy.security.pairing import (
    CODE_LIFE_S,
    TOKEN_LIFE_S,
    Sealing,
    Spake,
    new_code,
    new_token,
    read_secret,
)

PRIME = 2**255 - 19
ORDER_EIGHT = "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"  # RFC 8032's curve


def host_of(password: bytes = b"code 48219376") -> Spake:
    """The host's side."""
    return Spake(password, is_host=True)


def from_joiner(y: int) -> bytes:
    """A joiner's message with any 255 bits, and a sign, for a point."""
    return b"A" + y.to_bytes(32, "little")


def test_both_sides_of_one_password_get_one_key() -> None:
    """And those of two passwords do not; each element is new."""
    keys = []
    for typed in (b"code 48219376", b"code 48219375"):
        host, joiner = host_of(), Spake(typed, is_host=False)
        of_host, of_joiner = host.start(), joiner.start()
        assert len(of_host) == len(of_joiner) == ELEMENT_BYTES
        keys.append(host.finish(of_joiner) == joiner.finish(of_host))
    assert keys == [True, False]
    assert host_of().start() != host_of().start()


@pytest.mark.parametrize(
    "element",
    [
        pytest.param(b"", id="H06-0"),
        pytest.param(b"A", id="H06-1"),
        pytest.param(b"A" * 20, id="H06-20"),
        pytest.param(b"A" * 32, id="H06-32"),
        pytest.param(b"A" + Base.to_bytes() + b"\0", id="H06-34"),
        pytest.param(from_joiner(1), id="H07-identity"),
        pytest.param(from_joiner(1 | 1 << 255), id="H07-identity-other-sign"),
        pytest.param(from_joiner(PRIME + 1), id="H07-identity-not-canonical"),
        pytest.param(from_joiner(PRIME), id="H07-y=p"),
        pytest.param(from_joiner(2**255 - 1), id="H07-largest"),
        pytest.param(from_joiner(0), id="H07-zero"),
        pytest.param(from_joiner(PRIME - 1), id="H07-order-two"),
        pytest.param(b"A" + bytes.fromhex(ORDER_EIGHT), id="H07-order-eight"),
        pytest.param(from_joiner(2), id="H07-off-the-curve"),
        pytest.param(b"B" + Base.to_bytes(), id="H08-of-a-host"),
        pytest.param(b"S" + Base.to_bytes(), id="H08-of-no-side"),
    ],
)
def test_an_element_that_no_honest_side_sends_is_refused(element: bytes) -> None:
    """H06, H07, H08: whatever the package itself would take."""
    host = host_of()
    host.start()
    with pytest.raises(Exception):  # noqa: B017, PT011 - the package raises what it likes; all is a failed try
        host.finish(element)


def test_a_point_outside_the_prime_group_is_refused() -> None:
    """H07: an honest point plus one of order eight is on the curve, and refused."""
    from spake2.ed25519_basic import bytes_to_unknown_group_element

    mixed = Base.scalarmult(5).add(bytes_to_unknown_group_element(bytes.fromhex(ORDER_EIGHT)))
    host = host_of()
    host.start()
    with pytest.raises(ValueError, match="right group"):
        host.finish(b"A" + mixed.to_bytes())
    assert L > 2**252


def test_the_own_message_reflected_is_refused() -> None:
    """H08."""
    host = host_of()
    with pytest.raises(Exception, match="not A"):
        host.finish(host.start())


def test_a_sealed_text_opens_only_as_it_was_sealed() -> None:
    """H09: another key, number, transcript or one flipped bit, and it does not."""
    sealing = Sealing()
    key, other = (sealing.derive(b"k" * 32, b"salt", purpose) for purpose in (b"enc-host", b"enc-join"))
    assert key != other
    sealed = sealing.seal(key, 0, b"card", b"th")
    assert sealing.unseal(key, 0, sealed, b"th") == b"card"
    flipped = sealed[:-1] + bytes([sealed[-1] ^ 1])
    for bad in (
        (other, 0, sealed, b"th"),
        (key, 1, sealed, b"th"),
        (key, 0, sealed, b"x"),
        (key, 0, flipped, b"th"),
    ):
        with pytest.raises(InvalidTag):
            sealing.unseal(*bad)


def test_a_code_can_be_typed_in_many_ways() -> None:
    """The hyphen and blanks do not matter; the first two digits are the nameplate."""
    code = new_code()
    assert re.fullmatch(r"\d{4}-\d{4}", code.text)
    assert code.life_s == CODE_LIFE_S
    digits = code.text.replace("-", "")
    for typed in (code.text, digits, f" {digits[:4]} {digits[4:]}\n"):
        read = read_secret(typed)
        assert (read.nameplate, read.password) == (code.nameplate, code.password)
    assert code.nameplate == digits[:2]
    assert len({new_code().text for _ in range(20)}) > 15


def test_a_token_names_the_certificate_and_can_be_pasted() -> None:
    """In capitals or not, broken by a terminal or not; two tokens of one machine differ."""
    token = new_token(b"certificate")
    assert token.text.startswith("pp1-")
    assert token.life_s == TOKEN_LIFE_S
    for pasted in (token.text, token.text.lower(), token.text[:40] + "\n  " + token.text[40:]):
        read = read_secret(pasted)
        assert (read.password, read.certificate_hash) == (token.password, token.certificate_hash)
        assert read.nameplate == token.nameplate
    assert new_token(b"certificate").password != token.password
    assert re.fullmatch(r"\d\d", token.nameplate)


@pytest.mark.parametrize(
    "text", ["", "1234", "123456789", "abcd-efgh", "pp1-", "pp1-AAAA", "pp1-!!!!", "١٢٣٤٥٦٧٨"]
)
def test_what_is_neither_code_nor_token_is_told(text: str) -> None:
    """With what one looks like."""
    with pytest.raises(ConfigError, match="pairproxy pair"):
        read_secret(text)


def test_a_secret_does_not_show_itself() -> None:
    """What ends up in a log or a traceback is not the code."""
    code = new_code()
    assert code.text not in repr(code)
    assert code.password.decode() not in repr(code)
