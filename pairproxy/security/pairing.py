"""What pairing is made of: codes and tokens, the exchange of keys, the ciphers.

SPAKE2 on Ed25519 by the ``spake2`` package, which is not constant-time: whoever runs it gives each step a
fixed least duration. Its decoder takes 34 bytes for 33, a coordinate for the one that is smaller by the
field's prime, and two spellings of the neutral element; all of that is refused here before it is asked.

``cryptography`` and ``spake2`` are imported inside the functions: only pairing should pay for them.
"""

import base64
import hashlib
import re
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pairproxy.core.errors import ConfigError
from pairproxy.core.handshake import ELEMENT_BYTES

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

CODE_LIFE_S = 120.0  # time to walk to the other machine and type eight digits
TOKEN_LIFE_S = 600.0  # time to find the right terminal of a machine without a screen
TOKEN_SECRET_BYTES = 16  # not to be guessed, however often one may try

_FIELD = 2**255 - 19  # the prime of edwards25519 (RFC 7748, section 4.1)
_NEUTRAL_OR_WORSE = (0, 1, _FIELD - 1)  # y of the points of order 1, 2 and 4
_TOKEN = "pp1-"  # noqa: S105 - what a token begins with
_HASH_BYTES = 32
_ID_JOINER, _ID_HOST = b"pairproxy/1 join", b"pairproxy/1 host"


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """What both sides know. ``nameplate`` is public: two digits by which the host is found on the LAN.

    ``certificate_hash``: SHA-256 of the host's certificate, known to the joiner of a token. No repr: it
    would end up in a log.
    """

    nameplate: str
    password: bytes
    text: str
    life_s: float
    certificate_hash: bytes | None = None


def new_code() -> Secret:
    """A code such as 4821-9376: nameplate 48, and 20 bits that live for two minutes and three tries."""
    return _code(f"{secrets.randbelow(10**8):08d}")


def new_token(certificate: bytes) -> Secret:
    """A token of one line for the machine with this certificate (DER)."""
    return _token(hashlib.sha256(certificate).digest(), secrets.token_bytes(TOKEN_SECRET_BYTES))


def read_secret(text: str) -> Secret:
    """A code or token as a person typed or pasted it. Raises ConfigError if it is neither."""
    compact = "".join(text.split())
    if compact.lower().startswith(_TOKEN):
        return _read_token(compact[len(_TOKEN) :])
    digits = compact.replace("-", "")
    if not re.fullmatch(r"[0-9]{8}", digits):
        raise ConfigError(
            "This is no pairing code. A code has eight digits, such as 4821-9376; "
            "`pairproxy pair` on the other machine shows it."
        )
    return _code(digits)


def _read_token(text: str) -> Secret:
    try:
        content = base64.b32decode(text.upper() + "=" * (-len(text) % 8))
    except ValueError:
        content = b""
    if len(content) != _HASH_BYTES + TOKEN_SECRET_BYTES:
        raise ConfigError(
            "This token is not complete. Copy the whole line that `pairproxy pair --token` printed."
        )
    return _token(content[:_HASH_BYTES], content[_HASH_BYTES:])


def _code(digits: str) -> Secret:
    return Secret(digits[:2], b"code " + digits.encode(), f"{digits[:4]}-{digits[4:]}", CODE_LIFE_S)


def _token(certificate_hash: bytes, secret: bytes) -> Secret:
    text = _TOKEN + base64.b32encode(certificate_hash + secret).decode("ascii").rstrip("=")
    nameplate = f"{int.from_bytes(certificate_hash[:4], 'big') % 100:02d}"
    return Secret(nameplate, b"token " + secret, text, TOKEN_LIFE_S, certificate_hash)


class Spake:
    """One side of SPAKE2 (core.handshake.Pake); used for one exchange."""

    def __init__(self, password: bytes, *, is_host: bool) -> None:
        from spake2 import SPAKE2_A, SPAKE2_B

        side = SPAKE2_B if is_host else SPAKE2_A
        self._spake = side(password, idA=_ID_JOINER, idB=_ID_HOST)

    def start(self) -> bytes:
        """The own element: the side's letter and a point, 33 bytes. Takes 5 ms."""
        return bytes(self._spake.start())

    def finish(self, element: bytes) -> bytes:
        """The common key of 32 bytes. Raises anything for an element that an honest side does not send."""
        if len(element) != ELEMENT_BYTES:
            raise ValueError("not 33 bytes")
        y = int.from_bytes(element[1:], "little") & (2**255 - 1)
        if y >= _FIELD or y in _NEUTRAL_OR_WORSE:
            raise ValueError("not the one spelling of a point of the group")
        return bytes(self._spake.finish(element))


class Sealing:
    """HKDF-SHA256 and ChaCha20-Poly1305 (core.handshake.Ciphers)."""

    def derive(self, key: bytes, salt: bytes, purpose: bytes) -> bytes:
        """32 bytes for ``purpose`` (RFC 5869)."""
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        return HKDF(SHA256(), 32, salt, purpose).derive(key)

    def seal(self, key: bytes, number: int, text: bytes, bound_to: bytes) -> bytes:
        """Encrypt; ``number`` is the nonce, so each may be used once with a key (RFC 8439)."""
        return self._cipher(key).encrypt(number.to_bytes(12, "little"), text, bound_to)

    def unseal(self, key: bytes, number: int, sealed: bytes, bound_to: bytes) -> bytes:
        """Decrypt. Raises cryptography's InvalidTag if one bit of it differs."""
        return self._cipher(key).decrypt(number.to_bytes(12, "little"), sealed, bound_to)

    @staticmethod
    def _cipher(key: bytes) -> "ChaCha20Poly1305":
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

        return ChaCha20Poly1305(key)
