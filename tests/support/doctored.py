"""A whole set-up in which faults can be planted: two paired daemons, each with an engine that is a program.

The engine is a real process called `ollama` that says what its environment tells it to: OLLAMA_HOST,
OLLAMA_NUM_PARALLEL (it computes so many at once), FAKE_VERSION, FAKE_CONTENT, FAKE_CONTEXT.
"""

import asyncio
import contextlib
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import msgspec

from pairproxy.api.client import get_models
from pairproxy.api.diagnosis import Diagnosis
from pairproxy.cli.demo.cluster import node_environment
from tests.support.command import here, pairproxy
from tests.support.daemons import Daemons, Node, settings, until
from tests.support.engine_scripts import LAST_CHUNK, chunk, chunked_head
from tests.support.fake_engine import EngineConnection, FakeEngine, ParsedRequest
from tests.support.fake_ollama import CATALOGUE, DETAILS, SHOW, ollama_surface
from tests.support.free_ports import free_port

ROOT = Path(__file__).parents[2]
TOKENS, GAP_S = 12, 0.02  # of a reply: a quarter of a second
QUIET = ("OLLAMA_", "OPENAI_", "ANTHROPIC_", "LM_STUDIO", "LMSTUDIO", "CODEX_", "AIOHTTP_")


class Engine:
    """One engine process, started anew with other words when a test wants."""

    def __init__(self, directory: Path, name: str, port: int = 0) -> None:
        self.port = port or free_port()
        self._program = directory / f"{name}-bin" / "ollama"
        self._program.parent.mkdir()
        self._program.write_text(
            f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\n"
            "from tests.support.doctored import serve\nserve()\n"
        )
        self._program.chmod(0o755)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, host: str = "127.0.0.1", **said: str) -> None:
        """Run it; it answers when this returns."""
        environment = node_environment() | {"OLLAMA_HOST": f"{host}:{self.port}"} | said
        self._process = subprocess.Popen([str(self._program), "serve"], env=environment)
        until(lambda: _answers(self.port), "the engine answers")

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(10)
            self._process = None


class SetUp:
    """Nodes A and B; a context manager. ``home`` is that of the person who runs doctor on A."""

    def __init__(self, directory: Path, **sections: Any) -> None:
        self.directory = directory
        self.person = directory / "person"
        self.person.mkdir()
        self.engines = {name: Engine(directory, name) for name in ("A", "B")}
        self.fronts = {name: free_port() for name in ("A", "B")}
        self.daemons = Daemons(directory)
        for name, engine in self.engines.items():
            engine.start()
            self.daemons.home(name, _settings(engine.port, self.fronts[name], **sections))
        self.daemons.pair("A", "B")

    @property
    def home(self) -> Path:
        """Of node A."""
        return self.directory / "A"

    def __enter__(self) -> Self:
        self.daemons.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, *more: object) -> None:
        try:
            self.daemons.__exit__(kind, *more)
        finally:
            for engine in self.engines.values():
                engine.stop()

    def start(self) -> tuple[Node, Node]:
        """Both daemons, connected."""
        a, b = self.daemons.start("A", "B")
        self.daemons.until_connected()
        until(lambda: self.is_whole(a) and self.is_whole(b), "both hear each other")
        return a, b

    @property
    def a(self) -> Node:
        """The node on which doctor runs."""
        return self.daemons.nodes[0]

    @property
    def b(self) -> Node:
        """Its peer."""
        return self.daemons.nodes[1]

    def is_whole(self, node: Node) -> bool:
        """Whether a node sees the other, is heard by it, and knows of one model, the same on both."""
        status, models = node.status(), get_models(node.home)
        others = [one for one in status.nodes if not one.is_self]
        own = [engine for one in status.nodes if one.is_self for engine in one.engines]
        return (
            all(one.is_up and one.hears_us for one in others)
            and all(engine.is_up for engine in own)
            and [row.replicas for row in models.models] == [2]
        )

    def examined(self, *flags: str, is_apart: bool = False, **environment: str) -> Diagnosis:
        """What doctor says on A, as a script reads it; ``is_apart``: in a process of its own."""
        words: list[str | Path] = ["doctor", "--json", *flags, "--home", self.home]
        told = {"HOME": str(self.person)} | environment
        with without(QUIET):
            done = pairproxy(*words, flags=(), **told) if is_apart else here(*words, **told)
        assert done.stderr == ""
        found = msgspec.json.decode(done.stdout, type=Diagnosis)
        assert done.returncode == (0 if found.is_ok else 1)
        return found


@contextlib.contextmanager
def without(prefixes: tuple[str, ...]) -> Iterator[None]:
    """This process's environment without variables that lead clients somewhere."""
    before = dict(os.environ)
    for name in before:
        if name.startswith(prefixes) or name.lower().endswith("_proxy"):
            del os.environ[name]
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _settings(engine: int, front: int, **sections: Any) -> str:
    text = settings("ollama", **sections).replace(
        'kind = "ollama"', f'kind = "ollama"\nurl = "http://127.0.0.1:{engine}"'
    )
    head, _, entry = text.partition("[[engines]]")
    return f"{head}[[engines]]{entry.replace('127.0.0.1:0', f'127.0.0.1:{front}')}"


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


# --- the program ------------------------------------------------------------------------------------------


def serve() -> None:
    """Be an Ollama, as the environment says."""
    asyncio.run(_serve(os.environ))


async def _serve(said: Mapping[str, str]) -> None:
    host, _, port = said["OLLAMA_HOST"].rpartition(":")
    _dress(said)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    turns, surface = asyncio.Semaphore(int(said.get("OLLAMA_NUM_PARALLEL", "1"))), ollama_surface()

    async def script(request: ParsedRequest, connection: EngineConnection) -> None:
        if request.path != "/v1/chat/completions":
            await surface(request, connection)
            return
        async with turns:
            await connection.send(chunked_head("text/event-stream"))
            for _ in range(TOKENS):
                event = {"choices": [{"delta": {"content": "one "}}]}
                await connection.send(chunk(b"data: " + json.dumps(event).encode() + b"\n\n"))
                await asyncio.sleep(GAP_S)
            await connection.send(chunk(b"data: [DONE]\n\n") + LAST_CHUNK)

    async with FakeEngine(script, host=host, port=int(port)):
        await ended.wait()
        os._exit(0)


def _dress(said: Mapping[str, str]) -> None:
    """Let the fake surface tell of this version, content and window."""
    CATALOGUE["GET", "/api/version"] = {"version": said.get("FAKE_VERSION", "0.35.1")}
    digest = hashlib.sha256(said.get("FAKE_CONTENT", "fake").encode()).hexdigest()
    window = int(said.get("FAKE_CONTEXT", "32768"))
    SHOW["modelfile"] = f"FROM /models/blobs/sha256-{digest}\n"
    for path in ("/api/tags", "/api/ps"):
        (entry,) = CATALOGUE["GET", path]["models"]
        entry |= {"digest": digest, "details": DETAILS | {"context_length": window}}
    CATALOGUE["GET", "/api/ps"]["models"][0]["context_length"] = window
    SHOW["model_info"] = {"general.architecture": "fake", "fake.context_length": window}
