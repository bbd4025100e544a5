"""The certificate of the port for clients with keys, and the small authority that signs it.

A client is given one file, once: the authority's certificate. The port's own certificate is made anew
whenever this machine's addresses change or its time runs out, and no client notices. A self-signed one would
have to be carried to every client each time. Whoever stole the authority's key could not pose as any other
site: its certificate names what it may sign (name constraints, RFC 5280, 4.2.1.10): names and addresses of
private networks, and those of clients.names.

``cryptography`` is imported inside the functions, as in certificates.
"""

import ipaddress
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pairproxy.core.errors import ConfigError, StoreError
from pairproxy.security.private_files import (
    ensure_private_directory,
    exclusive,
    read_private,
    remove_private,
    write_private,
)

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

DIRECTORY = "clients"
AUTHORITY_FILE = "authority.pem"  # what clients are given
SERVER_FILE = "server.pem"  # the port's key and certificate
_AUTHORITY_KEY_FILE = "authority-key.pem"
_LOCK_FILE = "lock"

NAMES = ("localhost", "host.docker.internal", "gateway.docker.internal", "host.containers.internal")
"""By which containers call the machine that they run on: Docker, Docker Desktop, Podman."""
MOST_ADDRESSES = 64  # in one certificate; a machine with many container networks has 20
VALID = timedelta(days=397)  # Apple refuses 826 days and more also of authorities that a person added
_LEFT = VALID / 3  # when so much is left it is made anew
_EARLIER = timedelta(days=1)  # for clients whose clock is behind
_FROM = datetime(2020, 1, 1, tzinfo=UTC)
_UNTIL = datetime(2049, 12, 31, 23, 59, 59, tzinfo=UTC)  # wide: it is in images that nobody builds again
_FILE_BYTES = 64 * 1024
_DNS = re.compile(r"(?=.{1,253}$)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*")
_PRIVATE_NAMES = ("localhost", "docker.internal", "containers.internal", "local")
_PRIVATE_NETWORKS = tuple(
    map(
        ipaddress.ip_network,
        (
            "127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16",
            "100.64.0.0/10",  # Tailscale's and carriers' addresses
            "::1/128", "fc00::/7",
        ),
    )
)  # fmt: skip

Name = str | ipaddress.IPv4Address | ipaddress.IPv6Address


class Served(NamedTuple):
    """What the port shows."""

    file: Path  # key and certificate, PEM
    names: tuple[str, ...]
    is_new: bool  # the authority was made just now: clients need its certificate
    is_renewed: bool  # the port's own certificate was


def parse_name(text: str, key: str = "clients.names") -> Name:
    """A DNS name or an address to be in the certificate. Raises ConfigError naming ``key``."""
    word = text.strip().strip("[]").rstrip(".").lower()
    try:
        return ipaddress.ip_address(word)
    except ValueError:
        pass
    if _DNS.fullmatch(word) is None or word.replace(".", "").isdigit():
        raise ConfigError(f"{key}: {text!r} is neither a name like box.example.org nor an address.")
    return word


def authority_pem(home: Path) -> bytes | None:
    """What clients are to trust; None where the port was never opened. Raises StoreError."""
    return read_private(home / DIRECTORY / AUTHORITY_FILE, _FILE_BYTES)


def served(
    home: Path, wanted: Sequence[str], host: str, addresses: Iterable[str], now: datetime | None = None
) -> Served:
    """The certificate for these names, made anew if need be; takes milliseconds and blocks.

    ``wanted`` are those of a person: an authority that may not sign them is made anew, and with it the
    certificate that clients trust. ``host`` is this machine's name and ``addresses`` its own; what the
    authority may not sign is left out. Raises ConfigError, StoreError.
    """
    now = now or datetime.now(UTC)
    named = tuple(parse_name(one) for one in wanted)
    directory = home / DIRECTORY
    ensure_private_directory(directory)
    with exclusive(directory / _LOCK_FILE):
        certificate, key, is_new = _authority(directory, named, host)
        names = _names(certificate, named, host, addresses)
        file = directory / SERVER_FILE
        is_renewed = is_new or not _will_do(read_private(file, _FILE_BYTES), certificate, names, now)
        if is_renewed:
            write_private(file, _signed(certificate, key, names, now))
    return Served(file, tuple(map(str, names)), is_new, is_renewed)


def _authority(
    directory: Path, named: Sequence[Name], host: str
) -> "tuple[x509.Certificate, EllipticCurvePrivateKey, bool]":
    """The authority of this home, made if there is none or if it may not sign what is wanted."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    files = directory / AUTHORITY_FILE, directory / _AUTHORITY_KEY_FILE
    pem, key_pem = (read_private(file, _FILE_BYTES) for file in files)
    if pem is not None and key_pem is not None:
        try:
            certificate = x509.load_pem_x509_certificate(pem)
            key = serialization.load_pem_private_key(key_pem, None)
        except ValueError:
            raise StoreError(
                f"{directory} holds a damaged certificate. {_REMOVE.format(directory)}"
            ) from None
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            raise StoreError(f"{files[1]} does not belong to its certificate. {_REMOVE.format(directory)}")
        if all(_may_sign(certificate, name) for name in named):
            return certificate, key, False
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _new_authority(key, named, host)
    # In this order: a key without its certificate is of no use, and both are made anew then.
    remove_private(files[0])
    write_private(files[1], _key_pem(key))
    write_private(files[0], certificate.public_bytes(serialization.Encoding.PEM))
    return certificate, key, True


def _new_authority(key: "EllipticCurvePrivateKey", named: Sequence[Name], host: str) -> "x509.Certificate":
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import NameOID

    serial = x509.random_serial_number()
    # A subject of its own: of two authorities with one subject some clients find the wrong one.
    label = x509.NameAttribute(NameOID.COMMON_NAME, f"pairproxy clients {serial % 16**8:08x}")
    own = _host_name(host)
    dns = dict.fromkeys([*_PRIVATE_NAMES, *([own] if own else []), *(n for n in named if isinstance(n, str))])
    networks = dict.fromkeys(
        [*_PRIVATE_NETWORKS, *(ipaddress.ip_network(n) for n in named if not isinstance(n, str))]
    )
    allowed: list[x509.GeneralName] = [*map(x509.DNSName, dns), *map(x509.IPAddress, networks)]
    builder = _builder(x509.Name([label]), x509.Name([label]), key, key, (_FROM, _UNTIL), serial)
    return (
        builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(is_authority=True), critical=True)
        .add_extension(x509.NameConstraints(allowed, None), critical=True)
        .sign(key, hashes.SHA256())
    )


def _signed(
    authority: "x509.Certificate",
    authority_key: "EllipticCurvePrivateKey",
    names: Sequence[Name],
    now: datetime,
) -> bytes:
    """A new key of the port and its certificate, PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "pairproxy")])  # no name of a host
    dates = now - _EARLIER, now + VALID - _EARLIER
    builder = _builder(subject, authority.subject, key, authority_key, dates, x509.random_serial_number())
    told = [x509.DNSName(one) if isinstance(one, str) else x509.IPAddress(one) for one in names]
    certificate = (
        builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(is_authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(told), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    return _key_pem(key) + certificate.public_bytes(serialization.Encoding.PEM)


def _builder(
    subject: "x509.Name",
    issuer: "x509.Name",
    key: "EllipticCurvePrivateKey",
    issuer_key: "EllipticCurvePrivateKey",
    dates: tuple[datetime, datetime],
    serial: int,
) -> "x509.CertificateBuilder":
    from cryptography import x509

    public, of_issuer = key.public_key(), issuer_key.public_key()
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public)
    builder = builder.serial_number(serial).not_valid_before(dates[0]).not_valid_after(dates[1])
    # Python 3.13 refuses certificates without the two key identifiers.
    return builder.add_extension(
        x509.SubjectKeyIdentifier.from_public_key(public), critical=False
    ).add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(of_issuer), critical=False)


def _usage(*, is_authority: bool) -> "x509.KeyUsage":
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )


def _names(
    authority: "x509.Certificate", named: Sequence[Name], host: str, addresses: Iterable[str]
) -> tuple[Name, ...]:
    """What the port's certificate is for: those of a person first, then this machine's."""
    own = _host_name(host)
    short = own.partition(".")[0]
    automatic: list[Name] = [*NAMES, *((own, short, f"{short}.local") if own else ())]
    found = sorted({ipaddress.ip_address(one) for one in addresses}, key=lambda one: (one.version, int(one)))
    loopback: list[Name] = [ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("::1")]
    automatic += [*loopback, *found]
    usable = [one for one in dict.fromkeys(automatic) if _may_sign(authority, one)]
    return tuple(dict.fromkeys([*named, *usable[: MOST_ADDRESSES + len(NAMES)]]))


def _host_name(host: str) -> str:
    """This machine's name as a certificate can hold it; "" if it cannot."""
    word = host.strip().rstrip(".").lower()
    return word if _DNS.fullmatch(word) and not word.replace(".", "").isdigit() else ""


def _may_sign(authority: "x509.Certificate", name: Name) -> bool:
    from cryptography import x509

    try:
        allowed = authority.extensions.get_extension_for_class(x509.NameConstraints).value.permitted_subtrees
    except x509.ExtensionNotFound:
        return False
    if isinstance(name, str):
        trees = [one.value for one in allowed or () if isinstance(one, x509.DNSName)]
        return any(name == tree or name.endswith(f".{tree}") for tree in trees)
    networks = [one.value for one in allowed or () if isinstance(one, x509.IPAddress)]
    return any(
        isinstance(network, ipaddress.IPv4Network | ipaddress.IPv6Network)
        and network.version == name.version
        and name in network
        for network in networks
    )


def _will_do(pem: bytes | None, authority: "x509.Certificate", names: Sequence[Name], now: datetime) -> bool:
    """Whether a certificate is for these names, of this authority, and for long enough."""
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature

    if pem is None:
        return False
    try:
        certificate = x509.load_pem_x509_certificate(pem)
        told = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return False
    is_in_time = certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc - _LEFT
    return is_in_time and [one.value for one in told] == list(names)


def _key_pem(key: "EllipticCurvePrivateKey") -> bytes:
    from cryptography.hazmat.primitives import serialization

    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


_REMOVE = "Remove the directory {}; the clients need the new certificate then (`pairproxy keys certificate`)."
