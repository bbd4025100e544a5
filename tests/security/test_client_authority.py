"""The certificate of the key port and its authority, judged by OpenSSL and by a real handshake."""

import datetime
import ipaddress
import shutil
import ssl
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from pairproxy.core.errors import ConfigError, StoreError
from pairproxy.security import client_authority
from pairproxy.security.client_authority import (
    AUTHORITY_FILE,
    DIRECTORY,
    NAMES,
    VALID,
    authority_pem,
    parse_name,
    served,
)
from pairproxy.security.client_tls import key_port_context

NOW = datetime.datetime(2026, 11, 30, tzinfo=datetime.UTC)
ADDRESSES = ["192.168.1.7", "172.17.0.1", "fd00::7", "2001:db8::7", "fe80::7", "203.0.113.7"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An empty one."""
    tmp_path.chmod(0o700)
    return tmp_path


def leaf(file: Path) -> x509.Certificate:
    """The port's certificate; the key before it is passed over."""
    return x509.load_pem_x509_certificate(file.read_bytes())


def handshake(home: Path, file: Path, name: str) -> str:
    """The name of the protocol that a client which calls ``name`` and was given the authority agrees on.

    In memory, with both ends in one thread. Raises ssl.SSLError.
    """
    context = ssl.create_default_context(cafile=home / DIRECTORY / AUTHORITY_FILE)
    context.verify_flags |= ssl.VERIFY_X509_STRICT  # as from Python 3.13 on
    ours, theirs = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(theirs, ours, server_hostname=name)
    server = key_port_context(file).wrap_bio(ours, theirs, server_side=True)
    waiting = [client, server]
    for _ in range(10):
        for one in tuple(waiting):
            try:
                one.do_handshake()
                waiting.remove(one)
            except ssl.SSLWantReadError:
                pass
        if not waiting:
            return client.version() or ""
    raise AssertionError("no end of the handshake")


@pytest.mark.parametrize(
    "name",
    [*NAMES, "anna-ws", "anna-ws.local", "127.0.0.1", "::1", "192.168.1.7", "fd00::7", "box.example.org"],
)
def test_a_client_that_was_given_one_file_believes_every_name(name: str, home: Path) -> None:
    """Those by which containers and machines call this one, and those of a person."""
    found = served(home, ["Box.Example.org"], "Anna-WS", ADDRESSES)
    assert handshake(home, found.file, name) == "TLSv1.3"


@pytest.mark.parametrize("name", ["bank.example", "203.0.113.7", "2001:db8::7", "evil.box.example.org"])
def test_other_names_are_not_believed(name: str, home: Path) -> None:
    """Public addresses change hands; who wants one names it in clients.names."""
    found = served(home, ["box.example.org"], "anna-ws", ADDRESSES)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(home, found.file, name)


def test_addresses_change_without_a_word_to_clients(home: Path) -> None:
    """The authority stays byte for byte; the port's certificate has the new addresses."""
    first = served(home, [], "anna-ws", ADDRESSES, NOW)
    before = authority_pem(home)
    assert (first.is_new, first.is_renewed) == (True, True)
    same = served(home, [], "anna-ws", ADDRESSES, NOW)
    assert (same.is_new, same.is_renewed) == (False, False)
    moved = served(home, [], "anna-ws", ["10.1.2.3"], NOW)
    assert (moved.is_new, moved.is_renewed) == (False, True)
    assert "10.1.2.3" in moved.names
    assert authority_pem(home) == before
    other_host = served(home, [], "ben-mac", [], NOW)  # a Mac is called otherwise in each network
    assert (other_host.is_new, "ben-mac.local" in other_host.names) == (False, True)
    assert "ben-mac" not in other_host.names


def test_it_is_renewed_in_time_and_valid_for_no_longer_than_clients_like(home: Path) -> None:
    """Apple refuses more than 825 days; a clock that is a day behind is no reason to refuse it."""
    file = served(home, [], "anna-ws", [], NOW).file
    one = leaf(file)
    assert one.not_valid_after_utc - one.not_valid_before_utc <= datetime.timedelta(days=398)
    assert one.not_valid_before_utc < NOW - datetime.timedelta(hours=23)
    day = datetime.timedelta(days=1)
    assert not served(home, [], "anna-ws", [], NOW + VALID * 2 / 3 - 2 * day).is_renewed
    assert served(home, [], "anna-ws", [], NOW + VALID * 2 / 3 + day).is_renewed
    assert served(home, [], "anna-ws", [], datetime.datetime(2025, 1, 1, tzinfo=datetime.UTC)).is_renewed


def test_a_name_that_the_authority_may_not_sign_takes_a_new_one(home: Path) -> None:
    """Clients need its certificate then: told by is_new. Fewer names do not."""
    served(home, ["box.example.org"], "anna-ws", [])
    before = authority_pem(home)
    assert served(home, ["a.box.example.org"], "anna-ws", []).is_new is False
    assert served(home, [], "anna-ws", []).is_new is False
    assert authority_pem(home) == before
    assert served(home, ["203.0.113.7"], "anna-ws", []).is_new is True
    assert authority_pem(home) != before


def test_a_stolen_authority_cannot_pose_as_another_site(home: Path) -> None:
    """What it signs for a name outside its bounds is refused by who trusts it."""
    served(home, [], "anna-ws", [])
    directory = home / DIRECTORY
    authority = x509.load_pem_x509_certificate((directory / AUTHORITY_FILE).read_bytes())
    key = serialization.load_pem_private_key((directory / "authority-key.pem").read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    forged = client_authority._signed(authority, key, ["bank.example"], NOW)
    (home / "forged.pem").write_bytes(forged)
    with pytest.raises(ssl.SSLCertVerificationError, match="subtree"):
        handshake(home, home / "forged.pem", "bank.example")


def test_the_files_are_their_owners(home: Path) -> None:
    """And the authority signs no other authority."""
    served(home, [], "anna-ws", [])
    directory = home / DIRECTORY
    if sys.platform != "win32":
        assert {stat.S_IMODE(file.stat().st_mode) for file in directory.iterdir()} == {0o600}
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    authority = x509.load_pem_x509_certificate((directory / AUTHORITY_FILE).read_bytes())
    bounds = authority.extensions.get_extension_for_class(x509.BasicConstraints).value
    assert (bounds.ca, bounds.path_length) == (True, 0)
    assert isinstance(authority.signature_hash_algorithm, hashes.SHA256)


def test_openssl_finds_nothing_to_blame(home: Path) -> None:
    """With all its rules, as clients may be set to."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no program openssl here")
    file = served(home, ["box.example.org", "203.0.113.7"], "anna-ws", ADDRESSES).file
    line = [openssl, "verify", "-x509_strict", "-purpose", "sslserver", "-CAfile"]
    done = subprocess.run(
        [*line, str(home / DIRECTORY / AUTHORITY_FILE), str(file)], capture_output=True, text=True, timeout=30
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "text", ["", "a b", "-x", "x_y", "http://x", "1.2.3", "x:1", "*.example.org", "a..b", "ä.de"]
)
def test_what_is_no_name_is_told(text: str) -> None:
    """With the setting that has it."""
    with pytest.raises(ConfigError, match=r"clients\.names"):
        parse_name(text)


def test_names_are_read_as_people_write_them() -> None:
    """In any case, with a last dot, in brackets."""
    assert parse_name("Box.Example.Org.") == "box.example.org"
    assert parse_name("[::1]") == ipaddress.ip_address("::1")


@pytest.mark.parametrize("file", [AUTHORITY_FILE, "authority-key.pem"])
def test_a_damaged_file_is_told_and_a_lost_one_made_anew(file: str, home: Path) -> None:
    """A half-written pair means a crash in between: both are made anew."""
    served(home, [], "anna-ws", [])
    path = home / DIRECTORY / file
    path.write_bytes(b"-----BEGIN CERTIFICATE-----\nx")
    with pytest.raises(StoreError, match="damaged"):
        served(home, [], "anna-ws", [])
    path.unlink()
    assert served(home, [], "anna-ws", []).is_new is True


def test_many_addresses_and_odd_host_names_make_no_odd_certificate(home: Path) -> None:
    """A host name that DNS does not know is left out, and the list is bounded."""
    found = served(home, [], "Büro PC_1", [f"10.0.{one // 250}.{one % 250 + 1}" for one in range(500)])
    assert len(found.names) <= client_authority.MOST_ADDRESSES + len(NAMES)
    assert handshake(home, found.file, "host.docker.internal")
