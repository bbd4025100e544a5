"""Certificates that pairproxy would not make, for showing that it does not believe them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from pairproxy.core.models import NodeId
from pairproxy.security import certificates
from pairproxy.security.identity import Identity

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


def forge(
    *,
    subject: str,
    key: Key | None = None,
    issuer: tuple[x509.Certificate, Key] | None = None,
    is_ca: bool | None = False,
    has_key_ids: bool = True,
    is_wide: bool = True,
) -> tuple[x509.Certificate, Key]:
    """A certificate with any subject and issuer; the defaults follow our profile."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)])
    now = datetime.now(UTC)
    signer = issuer[1] if issuer else key
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer[0].subject if issuer else name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(certificates.NOT_BEFORE if is_wide else now - timedelta(days=1))
        .not_valid_after(certificates.NOT_AFTER if is_wide else now + timedelta(days=3650))
    )
    if is_ca is not None:
        builder = builder.add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        usage = x509.KeyUsage(True, False, False, False, False, is_ca, False, False, False)
        builder = builder.add_extension(usage, critical=True)
    if has_key_ids:
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
        builder = builder.add_extension(authority, False)
    return builder.sign(signer, hashes.SHA256()), key


def der(certificate: x509.Certificate) -> bytes:
    """The certificate as DER."""
    return certificate.public_bytes(serialization.Encoding.DER)


def as_identity(directory: Path, certificate: x509.Certificate, key: Key) -> Identity:
    """An identity that uses a forged certificate, its files in ``directory``."""
    directory.mkdir(parents=True, exist_ok=True)
    certificate_file, key_file = directory / "cert.pem", directory / "key.pem"
    certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return Identity(NodeId("FORGED"), der(certificate), certificate_file, key_file)
