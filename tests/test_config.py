"""Where things are by default, and addresses as settings write them."""

from pathlib import Path

import pytest

from pairproxy.config import cache_dir, default_home, is_loopback, parse_listen
from pairproxy.core.errors import ConfigError


def test_what_is_this_machine_only() -> None:
    """Every spelling of loopback, and nothing else."""
    for host in ("localhost", "127.0.0.1", "127.4.5.6", "::1", "[::1]"):
        assert is_loopback(host)
    for host in ("0.0.0.0", "::", "192.168.1.2", "example.org", "localhost.example", ""):
        assert not is_loopback(host)


def test_listen_addresses() -> None:
    """host:port and [v6]:port are read; anything else is an error that names its key."""
    assert parse_listen("127.0.0.1:0", "x") == ("127.0.0.1", 0)
    assert parse_listen("[::1]:11434", "x") == ("::1", 11434)
    for text in ("11434", ":1", "host:", "host:x", "host:70000", ""):
        with pytest.raises(ConfigError, match=r"peers\.listen"):
            parse_listen(text, "peers.listen")


def test_home_and_cache_can_be_moved(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """PAIRPROXY_HOME and PAIRPROXY_CACHE say where; without them it is the system's custom."""
    monkeypatch.setenv("PAIRPROXY_HOME", str(tmp_path / "h"))
    monkeypatch.setenv("PAIRPROXY_CACHE", str(tmp_path / "c"))
    assert (default_home(), cache_dir()) == (tmp_path / "h", tmp_path / "c")
    monkeypatch.delenv("PAIRPROXY_HOME")
    monkeypatch.delenv("PAIRPROXY_CACHE")
    assert default_home().name == cache_dir().name == "pairproxy"
