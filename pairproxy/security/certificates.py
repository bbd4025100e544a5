"""The one certificate profile of pairproxy: how it is made, and how a foreign one is checked against it.

EC P-256, self-signed with SHA-256, subject = issuer = ``CN=<device id>``, valid 1970 .. 9999, critical
BasicConstraints CA:FALSE, critical KeyUsage digitalSignature, subject and authority key identifier, and
nothing else. Why each of these: docs/security.md.

``cryptography`` is imported inside the functions: only making and reading certificates needs it, and a
process that does neither should not pay for it.
"""

import base64
import hashlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pairproxy.core.errors import StoreError
from pairproxy.core.models import NodeId

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes

# Wide on purpose: a node whose clock is wrong by decades must still be believed; trust ends by
# forgetting a peer, never by a date.
NOT_BEFORE = datetime(1970, 1, 1, tzinfo=UTC)
NOT_AFTER = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
MOST_BYTES = 2048  # ours has about 500

_NOT_OURS = "What was offered is not a certificate as pairproxy makes them"
_REMEDY = "Bring both machines to one version of pairproxy and pair again."


def device_id_of(der: bytes) -> NodeId:
    """The device id that belongs to a certificate's key: 52 characters of base32, no padding.

    Raises StoreError if ``der`` is not a certificate.
    """
    try:
        return _id_of_spki(_spki(_parse(der).public_key()))
    except Exception:  # noqa: BLE001 - hostile bytes: however the parser objects, the answer is one
        raise StoreError("What was offered is not a certificate.") from None


def check_profile(der: bytes) -> NodeId:
    """Return the device id of ``der`` if it has exactly our profile; else raise StoreError."""
    if len(der) > MOST_BYTES:
        raise StoreError(f"{_NOT_OURS}: it is larger than {MOST_BYTES} bytes. {_REMEDY}")
    try:
        difference = _difference(_parse(der))
    except Exception:  # noqa: BLE001 - as above; extensions are parsed late, with errors of their own
        difference = "it cannot be read"
    if difference:
        raise StoreError(f"{_NOT_OURS}: {difference}. {_REMEDY}")
    return device_id_of(der)


def make() -> tuple[bytes, bytes]:
    """Make a new key and its certificate; both returned as PEM, key first (PKCS#8, not encrypted)."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key()
    # A subject of its own for each: of two trusted certificates with one subject OpenSSL finds only one.
    name = _name_of(_id_of_spki(_spki(public)))
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOT_BEFORE)
        .not_valid_after(NOT_AFTER)
    )
    for extension in _extensions(public):
        builder = builder.add_extension(extension.value, extension.critical)
    key_pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return key_pem, builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def der_of_pair(key_pem: bytes, certificate_pem: bytes) -> bytes:
    """Return the certificate as DER. Raises StoreError unless it has our profile and the key is its own."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization

    try:
        certificate = x509.load_pem_x509_certificate(certificate_pem)
        key = serialization.load_pem_private_key(key_pem, password=None)
        der = certificate.public_bytes(serialization.Encoding.DER)
        is_its_own = _spki(key.public_key()) == _spki(certificate.public_key())
    except Exception:  # noqa: BLE001 - half a file, another format, an encrypted key: none is usable
        raise StoreError("The key or the certificate cannot be read.") from None
    if not is_its_own:
        raise StoreError("The key does not belong to the certificate.")
    check_profile(der)
    return der


def _parse(der: bytes) -> "x509.Certificate":
    from cryptography import x509

    return x509.load_der_x509_certificate(der)


def _difference(certificate: "x509.Certificate") -> str:
    """What sets ``certificate`` apart from our profile, or "". May raise anything on hostile bytes."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    public = certificate.public_key()
    if not isinstance(public, ec.EllipticCurvePublicKey) or not isinstance(public.curve, ec.SECP256R1):
        return "its key is not of the curve P-256"
    name = _name_of(_id_of_spki(_spki(public)))
    if certificate.subject != name or certificate.issuer != name:
        return "its subject is not the device id of its key"
    if certificate.version is not x509.Version.v3 or list(certificate.extensions) != _extensions(public):
        return "its extensions are others"
    if (certificate.not_valid_before_utc, certificate.not_valid_after_utc) != (NOT_BEFORE, NOT_AFTER):
        return "its dates are others"
    if not isinstance(certificate.signature_hash_algorithm, hashes.SHA256):
        return "its signature is of another kind"
    certificate.verify_directly_issued_by(certificate)
    return ""


def _extensions(public: "EllipticCurvePublicKey") -> "list[x509.Extension[x509.ExtensionType]]":
    from cryptography import x509

    key_usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
    # CA:FALSE, because a trusted certificate that may sign others would bring in whomever it likes.
    # No extended key usage: one that names only servers is refused from a client, and the reverse.
    wanted: list[tuple[x509.ExtensionType, bool]] = [
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (key_usage, True),
        (x509.SubjectKeyIdentifier.from_public_key(public), False),
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(public), False),
    ]
    return [x509.Extension(value.oid, critical, value) for value, critical in wanted]


def _name_of(device_id: NodeId) -> "x509.Name":
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, device_id)])


def _spki(public: "PublicKeyTypes") -> bytes:
    from cryptography.hazmat.primitives import serialization

    return public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def _id_of_spki(spki: bytes) -> NodeId:
    return NodeId(base64.b32encode(hashlib.sha256(spki).digest()).decode("ascii").rstrip("="))
