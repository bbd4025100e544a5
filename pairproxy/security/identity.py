"""Who this node is: one key, the certificate that goes with it, and the device id that both amount to.

The device id is the base32 of the SHA-256 of the public key (SubjectPublicKeyInfo), 52 characters. People
see its first eight as ``XXXX-XXXX`` (:func:`short_id`); machines always compare all of it, and trust
compares whole certificates (security.trust).
"""

import contextlib
import hashlib
import ssl
from dataclasses import dataclass
from pathlib import Path

from pairproxy.core.errors import StoreError
from pairproxy.core.models import NodeId
from pairproxy.security import certificates
from pairproxy.security.certificates import device_id_of
from pairproxy.security.private_files import (
    ensure_private_directory,
    exclusive,
    read_private,
    remove_private,
    write_private,
)

__all__ = ["Identity", "device_id_of", "load_or_create", "reset", "short_id"]

KEY_FILE = "key.pem"
CERTIFICATE_FILE = "cert.pem"
_LOCK_FILE = "identity.lock"
_MAKING_FILE = "identity.making"  # there while the two files are made, so that half a pair is known as such
_CHECKED_FILE = "identity.checked"  # the digest of a pair that was found good, and its device id
_RULES = b"1"  # by which it was: what another version checks differently is checked anew
FILE_BYTES = 16 * 1024  # a P-256 key and its certificate have 1 KiB together
_AS_NEW = "to begin as a new node, with which every paired machine must then pair again."


@dataclass(frozen=True, slots=True)
class Identity:
    """This node's own name towards peers. ``certificate`` is DER; both files are PEM."""

    device_id: NodeId
    certificate: bytes
    certificate_file: Path
    key_file: Path


def short_id(node: NodeId) -> str:
    """The device id as people see it, ``XXXX-XXXX``: 40 bits tell machines apart, and prove nothing."""
    return f"{node[:4]}-{node[4:8]}"


def load_or_create(home: Path) -> Identity:
    """Return the identity kept in ``home``, made on the first call.

    ``home`` is made with mode 0700, the files with 0600. Processes that call this at the same time get the
    same identity. Raises StoreError, saying what to do, if the directory or a file is open to other users
    or not ours, if one file of the two is missing, or if they do not fit.
    """
    ensure_private_directory(home)
    key_file, certificate_file = home / KEY_FILE, home / CERTIFICATE_FILE
    making = home / _MAKING_FILE
    # Held while reading too: between the two renames of a first start there is a key without certificate.
    with exclusive(home / _LOCK_FILE):
        key = read_private(key_file, FILE_BYTES)
        certificate = read_private(certificate_file, FILE_BYTES)
        absent = [key, certificate].count(None)
        # Unfinished: whoever made them was killed, and nobody has seen them yet.
        if absent == 2 or (absent and making.exists()):
            write_private(making, b"")
            key, certificate = certificates.make()
            write_private(key_file, key)
            write_private(certificate_file, certificate)
            absent = 0
        if not absent and making.exists():
            remove_private(making)
    if key is None or certificate is None:
        missing, present = (key_file, certificate_file) if key is None else (certificate_file, key_file)
        raise StoreError(
            f"{missing} is missing beside {present}. Put it back from a backup; or remove {present} {_AS_NEW}"
        )
    try:
        device_id, der = _checked(home / _CHECKED_FILE, key, certificate)
    except StoreError as error:
        raise StoreError(
            f"{key_file} and {certificate_file} cannot be used: {error} "
            f"Put both back from a backup; or remove both {_AS_NEW}"
        ) from None
    return Identity(device_id, der, certificate_file, key_file)


def is_checked(home: Path) -> bool:
    """Whether a pair in ``home`` was found good before: most likely it is still that one."""
    return (home / _CHECKED_FILE).exists()


def _checked(memory: Path, key: bytes, certificate: bytes) -> tuple[NodeId, bytes]:
    """The device id and the DER of a pair that is as it must be. Raises StoreError for any other.

    What was found good is remembered by its digest in ``memory``, which is as private as the key:
    cryptography is needed once for a pair, and a daemon without it is 10 MB smaller and starts 80 ms sooner.
    """
    digest = hashlib.sha256(b"\0".join((_RULES, key, certificate))).hexdigest()
    with contextlib.suppress(StoreError, ValueError):
        known, _, device_id = (read_private(memory, FILE_BYTES) or b"").decode("ascii").partition(" ")
        if known == digest:
            return NodeId(device_id), ssl.PEM_cert_to_DER_cert(certificate.decode("ascii"))
    der = certificates.der_of_pair(key, certificate)
    device_id = device_id_of(der)
    with contextlib.suppress(StoreError):  # on a full disk it is checked again next time
        write_private(memory, f"{digest} {device_id}".encode("ascii"))
    return device_id, der


def reset(home: Path) -> Identity:
    """Make a new identity in ``home``, in place of the old one. Raises StoreError.

    Cut off at any moment it leaves the old one, or none, which the next start makes anew.
    """
    ensure_private_directory(home)
    with exclusive(home / _LOCK_FILE):
        write_private(home / _MAKING_FILE, b"")
        remove_private(home / KEY_FILE)
        remove_private(home / CERTIFICATE_FILE)
    return load_or_create(home)
