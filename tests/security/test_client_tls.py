"""TLS of the key port: what it refuses is in tests/proxy/test_key_port_holding.py, whom clients believe in
tests/security/test_client_authority.py."""

import ssl
from pathlib import Path

import pytest

from pairproxy.core.errors import StoreError
from pairproxy.security.client_authority import served
from pairproxy.security.client_tls import key_port_context, show


def test_only_ciphers_with_forward_secrecy_are_spoken(tmp_path: Path) -> None:
    """And TLS 1.2 at least; clients are not asked for a certificate."""
    tmp_path.chmod(0o700)
    context = key_port_context(served(tmp_path, (), "anna", ()).file)
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert context.verify_mode == ssl.CERT_NONE
    names = {cipher["name"] for cipher in context.get_ciphers()}
    assert names
    assert all(name.startswith(("TLS_", "ECDHE-")) and "CBC" not in name for name in names)


def test_a_file_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    """With what to do."""
    tmp_path.chmod(0o700)
    context = key_port_context(served(tmp_path, (), "anna", ()).file)
    with pytest.raises(StoreError, match="made anew"):
        show(context, tmp_path / "none.pem")
