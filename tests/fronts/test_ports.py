"""The ports of a daemon."""

import socket
from pathlib import Path

import pytest

from pairproxy.config import AdminSettings, EngineSettings, Settings
from pairproxy.core.errors import PortTaken
from pairproxy.daemon import Daemon
from tests.support.running import run_async


def test_all_ports_are_taken_or_none(home: Path) -> None:
    """A daemon that cannot have its admin port leaves the client port to others."""

    async def scene(settings: Settings) -> None:
        with pytest.raises(PortTaken):
            await Daemon(settings, home, lambda done, total: None).run(lambda file: None)

    with socket.socket() as free, socket.create_server(("127.0.0.1", 0)) as held:
        free.bind(("127.0.0.1", 0))
        wanted = free.getsockname()[1]
        free.close()
        entry = EngineSettings(kind="ollama", url="http://127.0.0.1:9", listen=f"127.0.0.1:{wanted}")
        admin = AdminSettings(f"127.0.0.1:{held.getsockname()[1]}")
        run_async(scene(Settings(engines=(entry,), admin=admin)))
        with socket.create_server(("127.0.0.1", wanted)):
            pass
