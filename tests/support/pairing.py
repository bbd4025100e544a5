"""Two machines that pair on loopback: the commands as processes of their own, or both within this one."""

import json
import re
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from pairproxy.peers.pairing import Granted, Me
from pairproxy.security.identity import load_or_create
from pairproxy.security.pairing_cards import own_card
from pairproxy.security.trust import TrustStore
from tests.support.command import environment

LIMIT_S = 45.0  # a start takes 0.5 s on an idle machine, a pairing 0.4 s more


def home_of(directory: Path, name: str, text: str = "") -> Path:
    """A home whose peers are on this machine only; ``text`` is added to its config.toml."""
    home = directory / name
    home.mkdir(mode=0o700)
    config = f'[node]\nname = "{name}-ws"\n[peers]\nloopback = true\nlisten = "127.0.0.1:0"\n{text}'
    (home / "config.toml").write_text(config)
    return home


def peers_of(home: Path) -> list[dict[str, Any]]:
    """What lies in the home about paired machines; nothing half-written may lie beside it."""
    directory = home / "peers"
    files = sorted(directory.iterdir()) if directory.is_dir() else []
    assert all(file.suffix == ".json" for file in files), files
    return [json.loads(file.read_text()) for file in files]


class Command:
    """`pairproxy ARGUMENTS` while it runs; a context manager that ends it."""

    def __init__(self, *arguments: str | Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pairproxy", *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment(COLUMNS="200"),
        )
        self.said = ""

    def until(self, pattern: str) -> re.Match[str]:
        """Wait until it has said something that matches."""
        end = time.monotonic() + LIMIT_S
        while not (match := re.search(pattern, self.said)):
            assert self._read(end), f"it never said {pattern!r}:\n{self.said}"
        return match

    def code(self) -> str:
        """Wait for the code or the token, and the port."""
        return self.until(r"pairproxy join (\S+)\n")[1]

    def place(self) -> str:
        """Wait for what may follow --at."""
        return self.until(r"--at (\S+)\n")[1]

    def ended(self) -> int:
        """Wait for its end; returns its exit status."""
        end = time.monotonic() + LIMIT_S
        while self._read(end):
            pass
        return self.process.wait(LIMIT_S)

    def _read(self, end: float) -> bool:
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, end - time.monotonic()))
        assert ready, f"not within {LIMIT_S:.0f} s; it said:\n{self.said}"
        part = self.process.stdout.read1(4096)  # type: ignore[attr-defined]
        self.said += part.decode()
        return bool(part)

    def __enter__(self) -> "Command":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(LIMIT_S)
        if self.process.stdout is not None:
            self.process.stdout.close()


def wrong(code: str) -> str:
    """Another code of the same nameplate."""
    return code[:-1] + str((int(code[-1]) + 1) % 10)


def me_of(directory: Path, name: str, granted: Granted | None = None) -> Me:
    """A machine on loopback, for pairing within this process."""
    identity = load_or_create(directory / name)
    trust = TrustStore(directory / name, identity.device_id)
    trust.load()
    granted = granted or Granted()
    card = own_card(
        identity, f"{name}-ws", you_may_use_me=granted.may_use_me, peer_port=11634, hosts=("127.0.0.1",)
    )
    return Me(identity, trust, card, granted, is_on_loopback=True)


def is_stranger(me: Me, other: Me) -> bool:
    """Whether nothing of the other is kept, in memory or in files."""
    me.trust.load()
    node = other.identity.device_id
    return me.trust.get(node) is None and not me.trust.was_forgotten(other.identity.certificate)
