import base64
import hashlib
from collections.abc import Callable

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from pairproxy.core.errors import StoreError
from pairproxy.security import certificates
from tests.support.certificates import Key, der, forge


def make_der() -> bytes:
    """The certificate of a new key."""
    return certificates.der_of_pair(*certificates.make())


def id_of(key: Key) -> str:
    """The device id of a key, computed independently of the product."""
    spki = key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return base64.b32encode(hashlib.sha256(spki).digest()).decode().rstrip("=")


def test_the_device_id_is_the_hash_of_the_public_key() -> None:
    """The device id is the unpadded base32 of the SHA-256 of the SubjectPublicKeyInfo."""
    key, certificate = certificates.make()
    private = serialization.load_pem_private_key(key, None)
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    expected = id_of(private)
    assert certificates.device_id_of(certificates.der_of_pair(key, certificate)) == expected
    assert len(expected) == 52


def test_a_made_certificate_has_the_profile() -> None:
    """Subject and issuer are the device id, dates are as wide as they go, nothing may be signed with it."""
    der_bytes = make_der()
    certificate = x509.load_der_x509_certificate(der_bytes)
    device_id = certificates.device_id_of(der_bytes)
    assert certificate.subject.rfc4514_string() == certificate.issuer.rfc4514_string() == f"CN={device_id}"
    assert certificate.not_valid_before_utc.year == 1970
    assert certificate.not_valid_after_utc.isoformat() == "9999-12-31T23:59:59+00:00"
    found = {extension.oid._name: extension for extension in certificate.extensions}
    assert set(found) == {
        "basicConstraints",
        "keyUsage",
        "subjectKeyIdentifier",
        "authorityKeyIdentifier",
    }
    assert not found["basicConstraints"].value.ca
    assert found["basicConstraints"].critical
    assert found["keyUsage"].critical
    assert found["keyUsage"].value.digital_signature
    assert not found["keyUsage"].value.key_cert_sign
    assert certificates.check_profile(der_bytes) == device_id


def test_every_certificate_has_a_subject_of_its_own() -> None:
    """Two nodes never share a subject: OpenSSL would find only one of two trusted ones."""
    subjects = {x509.load_der_x509_certificate(make_der()).subject for _ in range(5)}
    assert len(subjects) == 5


def p256() -> ec.EllipticCurvePrivateKey:
    """A key of the right kind."""
    return ec.generate_private_key(ec.SECP256R1())


def _ca() -> x509.Certificate:
    key = p256()
    return forge(subject=id_of(key), key=key, is_ca=True)[0]


def _without_key_ids() -> x509.Certificate:
    key = p256()
    return forge(subject=id_of(key), key=key, has_key_ids=False)[0]


def _without_constraints() -> x509.Certificate:
    key = p256()
    return forge(subject=id_of(key), key=key, is_ca=None)[0]


def _other_subject() -> x509.Certificate:
    return forge(subject=id_of(p256()))[0]


def _short_dates() -> x509.Certificate:
    key = p256()
    return forge(subject=id_of(key), key=key, is_wide=False)[0]


def _rsa() -> x509.Certificate:
    key = rsa.generate_private_key(65537, 1024)  # noqa: S505 - that is what is refused
    return forge(subject=id_of(key), key=key)[0]


def _other_curve() -> x509.Certificate:
    key = ec.generate_private_key(ec.SECP384R1())
    return forge(subject=id_of(key), key=key)[0]


def _signed_by_another() -> x509.Certificate:
    key, other = p256(), p256()
    return forge(subject=id_of(key), key=key, issuer=(forge(subject=id_of(key), key=key)[0], other))[0]


@pytest.mark.parametrize(
    "forged",
    [
        _ca,
        _without_key_ids,
        _without_constraints,
        _other_subject,
        _short_dates,
        _rsa,
        _other_curve,
        _signed_by_another,
    ],
)
def test_other_profiles_are_refused(forged: Callable[[], x509.Certificate]) -> None:
    """A certificate that differs from the profile in one point is refused (H11)."""
    with pytest.raises(StoreError, match="not a certificate as pairproxy makes them"):
        certificates.check_profile(der(forged()))


def test_a_forgery_that_follows_the_profile_is_accepted() -> None:
    """The forging of these tests differs from the profile only where it is told to."""
    key = p256()
    assert certificates.check_profile(der(forge(subject=id_of(key), key=key)[0])) == id_of(key)


@pytest.mark.parametrize(
    "rubbish", [b"", b"\x30", b"\x30\x82\xff\xff", b"x" * 100, b"\x00" * 2000, b"y" * 100_000]
)
def test_rubbish_is_refused(rubbish: bytes) -> None:
    """Bytes that are no certificate are refused by our own error."""
    with pytest.raises(StoreError):
        certificates.check_profile(rubbish)
    with pytest.raises(StoreError):
        certificates.device_id_of(rubbish)


def test_bytes_after_the_certificate_are_refused() -> None:
    """A certificate followed by one more byte is another thing."""
    with pytest.raises(StoreError):
        certificates.check_profile(make_der() + b"\x00")


def test_every_flipped_bit_is_noticed() -> None:
    """No single bit of a certificate can change without a refusal."""
    good = make_der()
    for place in range(0, len(good), 7):
        bad = bytearray(good)
        bad[place] ^= 1 << (place % 8)
        with pytest.raises(StoreError):
            certificates.check_profile(bytes(bad))


def test_a_key_and_a_certificate_of_two_nodes_do_not_fit() -> None:
    """A key beside another node's certificate is refused."""
    with pytest.raises(StoreError, match="does not belong"):
        certificates.der_of_pair(certificates.make()[0], certificates.make()[1])
