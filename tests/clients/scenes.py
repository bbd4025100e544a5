"""Two paired nodes before engines of one kind, and where the first engine answers without a proxy."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pairproxy.api.schema import Record
from tests.e2e.test_clients import engine_ports
from tests.support.daemons import Daemons, Node, settings
from tests.support.embedded import model_cache
from tests.support.engine_thread import in_thread
from tests.support.fake_engine import FakeEngine
from tests.support.fake_lmstudio import MODEL as STUDIO_MODEL
from tests.support.fake_lmstudio import FakeLmStudio, lmstudio_in_thread
from tests.support.fake_ollama import ollama_surface
from tests.support.fake_ollama_reply import MODEL as FAKE_MODEL

EMBEDDED_MODEL = "smollm2:135m"
AS_SHIPPED: dict[str, Any] = {
    "routing": {"policy": "least-busy"},  # one request here, the next there: both nodes serve each client
    "debug": {"headers": False},  # as everywhere but in our other tests: nothing is added to replies
}


@dataclass
class Scene:
    """Two paired nodes, and where the engine of the first answers without a proxy."""

    nodes: list[Node]
    model: str
    engine: dict[str, str]
    """URL by dialect."""
    may_fail: set[str]
    """Calls that the engine itself does not know; ``error`` always may."""
    studios: list[FakeLmStudio] = field(default_factory=list)
    engines: list[FakeEngine] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.nodes[0].port}"

    def records(self) -> dict[str, Record]:
        return {record.request: record for record in self.nodes[0].report().records}


@contextlib.contextmanager
def embedded_scene(directory: Path) -> Iterator[Scene]:
    """Two nodes with embedded engines: a real model, real sampling, llama.cpp's own bytes."""
    model_cache()
    with Daemons(directory) as daemons:
        for name in "AB":
            daemons.home(name, settings("embedded", **AS_SHIPPED))
        daemons.pair("A", "B")
        nodes = daemons.start("A", "B")
        daemons.until_connected()
        face, llama = (f"http://127.0.0.1:{port}" for port in engine_ports(nodes[0]))
        engine = {"ollama": face, "openai": llama, "anthropic": llama}
        # llama.cpp answers for any name, and has no path for one model of its list.
        yield Scene(nodes, EMBEDDED_MODEL, engine, {"retrieving"})


@contextlib.contextmanager
def fake_scene(directory: Path) -> Iterator[Scene]:
    """Two nodes before engines that answer with the real Ollama's documented bytes."""
    with (
        in_thread(ollama_surface()) as first,
        in_thread(ollama_surface()) as second,
        Daemons(directory) as daemons,
    ):
        for name, engine in (("A", first), ("B", second)):
            daemons.home(name, settings_for({"kind": "ollama", "url": engine.url, "listen": "127.0.0.1:0"}))
        daemons.pair("A", "B")
        nodes = daemons.start("A", "B")
        daemons.until_connected()
        dialects = dict.fromkeys(("ollama", "openai", "anthropic"), first.url)
        yield Scene(nodes, FAKE_MODEL, dialects, set(), engines=[first, second])


@contextlib.contextmanager
def studios_scene(directory: Path) -> Iterator[Scene]:
    """Two nodes before engines that answer as LM Studio is documented to, WebSockets too."""
    with (
        lmstudio_in_thread() as first,
        lmstudio_in_thread() as second,
        Daemons(directory) as daemons,
    ):
        for name, engine in (("A", first), ("B", second)):
            daemons.home(name, settings_for({"kind": "lmstudio", "url": engine.url, "listen": "127.0.0.1:0"}))
        daemons.pair("A", "B")
        nodes = daemons.start("A", "B")
        daemons.until_connected()
        dialects = dict.fromkeys(("openai", "lmstudio"), first.url)
        # LM Studio has no path for one model of its list and says so with 200.
        yield Scene(nodes, STUDIO_MODEL, dialects, {"retrieving"}, [first, second])


def settings_for(engine: dict[str, str]) -> str:
    """A node before an engine that is already there."""
    text, _, _ = settings(**AS_SHIPPED).partition("[[engines]]")
    return text + "[[engines]]\n" + "".join(f'{key} = "{value}"\n' for key, value in engine.items())
