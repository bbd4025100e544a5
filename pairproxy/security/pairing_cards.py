"""The card that a side of a pairing shows: its certificate, the proof of its key, and where it is.

Everything is checked before anything is stored: size, the certificate's profile, that it is not our own, and
the signature over what both sides have just said.
"""

import hashlib
import hmac
from typing import Annotated

import msgspec

from pairproxy.core.errors import StoreError
from pairproxy.core.models import NodeId
from pairproxy.security.certificates import MOST_BYTES, check_profile
from pairproxy.security.identity import FILE_BYTES, Identity
from pairproxy.security.peer_record import MOST_ADDRESSES
from pairproxy.security.private_files import read_private

_POSSESSION = b"pairproxy/1 possession"
_MOST_HOST = 64  # characters of an address: IPv6 with a zone


class Card(msgspec.Struct, frozen=True):
    """What one side tells the other, sealed. ``certificate`` is DER; unknown fields are of newer versions."""

    certificate: Annotated[bytes, msgspec.Meta(max_length=MOST_BYTES)]
    signature: Annotated[bytes, msgspec.Meta(max_length=128)]
    name: str  # as long as the message allows; 64 printable characters of it are kept
    you_may_use_me: bool
    peer_port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0  # 0: not known yet
    hosts: Annotated[
        tuple[Annotated[str, msgspec.Meta(max_length=_MOST_HOST)], ...],
        msgspec.Meta(max_length=MOST_ADDRESSES),
    ] = ()


class CardCase:
    """The own card and the other's (core.handshake.Cards); used for one exchange."""

    def __init__(self, identity: Identity, card: Card, certificate_hash: bytes | None = None) -> None:
        """``card`` is the own one but for its signature; ``certificate_hash`` is what a token asks for."""
        self._identity = identity
        self._card = card
        self._certificate_hash = certificate_hash
        self.accepted: tuple[NodeId, Card] | None = None
        """The other side's device id and card, once it was accepted."""
        self.problem = ""
        """Why it was not accepted, as a sentence for a person."""

    def own(self, transcript: bytes) -> bytes:
        """The own card, signed for this exchange. Raises anything if the key cannot be used."""
        signature = _sign(self._identity, _POSSESSION + transcript)
        return msgspec.json.encode(msgspec.structs.replace(self._card, signature=signature))

    def accept(self, card: bytes, transcript: bytes) -> None:
        """Take the other's card. Raises StoreError if it is not acceptable; ``problem`` says why."""
        try:
            self.accepted = self._checked(card, transcript)
        except StoreError as error:
            self.problem = error.sentence
            raise
        except Exception:  # noqa: BLE001 - hostile bytes: however the parsers object, the answer is one
            self.problem = (
                "The other machine did not prove that its certificate is its own. Bring both to one version "
                "of pairproxy and pair again."
            )
            raise StoreError(self.problem) from None

    def _checked(self, card: bytes, transcript: bytes) -> tuple[NodeId, Card]:
        read = msgspec.json.decode(card, type=Card)
        node = check_profile(read.certificate)
        if node == self._identity.device_id:
            raise StoreError("That is this machine itself. Pair with another one.")
        found = hashlib.sha256(read.certificate).digest()
        if self._certificate_hash is not None and not hmac.compare_digest(found, self._certificate_hash):
            raise StoreError("Another certificate answered than the token names. Make a new token.")
        _verify(read.certificate, read.signature, _POSSESSION + transcript)
        return node, read


def own_card(
    identity: Identity, name: str, *, you_may_use_me: bool, peer_port: int, hosts: tuple[str, ...]
) -> Card:
    """The card of this machine, not yet signed: that is done for each exchange."""
    return Card(identity.certificate, b"", name, you_may_use_me, peer_port, hosts[:MOST_ADDRESSES])


def _sign(identity: Identity, text: bytes) -> bytes:
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    pem = read_private(identity.key_file, FILE_BYTES) or b""
    key = serialization.load_pem_private_key(pem, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise StoreError("The key of this machine is of another kind than pairproxy makes.")
    return key.sign(text, ec.ECDSA(hashes.SHA256()))


def _verify(certificate: bytes, signature: bytes, text: bytes) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    key = x509.load_der_x509_certificate(certificate).public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise StoreError("The key of the other machine is of another kind than pairproxy makes.")
    key.verify(signature, text, ec.ECDSA(hashes.SHA256()))
