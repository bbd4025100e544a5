"""The well-known ports of engines, moved aside: no test may touch those of the machine it runs on."""

import functools
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pairproxy import daemon
from pairproxy.config import AdminSettings, EngineKind, NodeSettings, PeerSettings, Settings
from pairproxy.engines import finder
from pairproxy.engines.ports import PORTS, Ports
from tests.support.free_ports import free_ports

NOTHING_NAMED = Settings(
    node=NodeSettings(name="anna"),
    admin=AdminSettings(listen="127.0.0.1:0"),
    peers=PeerSettings(listen="127.0.0.1:0", loopback=True),
)
"""Settings without engines: they are sought at the well-known ports."""


@contextmanager
def well_known_ports() -> Iterator[dict[EngineKind, Ports]]:
    """Ollama's, LM Studio's, llama.cpp's and vLLM's ports are free ones of this process meanwhile."""
    numbers = free_ports(6)
    known: dict[EngineKind, Ports] = {
        "ollama": Ports(numbers[0], numbers[1]),
        "lmstudio": Ports(numbers[2], numbers[3]),
        "llamacpp": Ports(numbers[4]),
        "openai": Ports(numbers[5]),
    }
    with pytest.MonkeyPatch.context() as patch:
        for kind, ports in known.items():
            patch.setitem(PORTS, kind, ports)
        patch.setattr(daemon, "find_engines", functools.partial(finder.find_engines, tuple(numbers)))
        patch.setattr(finder, "PROBE_TIMEOUT_S", 10.0)  # nobody is silent there, but this machine may be
        patch.setattr(finder, "LATER_PORTS", tuple(numbers[4:]))
        yield known
