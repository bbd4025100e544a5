"""The ports of a daemon."""

import socket
from pathlib import Path

import pytest

from pairproxy.config import AdminSettings, EngineSettings, Limits, Settings
from pairproxy.core.errors import PortTaken
from pairproxy.engines.own import OwnEngines
from pairproxy.fronts import bind_all
from pairproxy.security.identity import load_or_create
from pairproxy.security.trust import TrustStore


def test_all_ports_are_taken_or_none(tmp_path: Path) -> None:
    """A daemon that cannot have its admin port leaves the client port to others."""
    tmp_path.chmod(0o700)
    trust = TrustStore(tmp_path, load_or_create(tmp_path).device_id)
    trust.load()
    with socket.socket() as free, socket.create_server(("127.0.0.1", 0)) as held:
        free.bind(("127.0.0.1", 0))
        wanted = free.getsockname()[1]
        free.close()
        entry = EngineSettings(kind="ollama", url="http://127.0.0.1:9", listen=f"127.0.0.1:{wanted}")
        admin = AdminSettings(f"127.0.0.1:{held.getsockname()[1]}")
        settings = Settings(engines=(entry,), admin=admin)
        engines = OwnEngines(settings.engines, tmp_path, lambda done, total: None, Limits())
        with pytest.raises(PortTaken):
            bind_all(settings, engines, trust)
        with socket.create_server(("127.0.0.1", wanted)):
            pass
