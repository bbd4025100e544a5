"""pairproxy as a user has it: `pairproxy up` with one engine entry, and everything that is on by itself.

Compiled as its wheel is, and beside that as a checkout runs it. Where nothing can be compiled both are the
same, which command.py tells.

With a peer: the daemon that is asked holds no replica of the model, so every request goes to the paired one
over mutual TLS. That one runs on the core of upstream and clients: it stands for another machine, whose time
is not ours.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from pairproxy.api.client import NoDaemon, get_status, read_daemon_file
from pairproxy.cli.bench.overhead.building import CannotBuild
from pairproxy.cli.bench.overhead.compiling import compiled_package, digest, imported_from
from pairproxy.cli.bench.overhead.processes import (
    OTHER_CORE,
    POLL_S,
    PROXY_CORE,
    READY_S,
    CannotStart,
    Child,
    free_port,
    started,
    until_answers,
)
from pairproxy.cli.bench.overhead.targets import OPENAI_PATH, READY_BODY, Place, Running, Target
from pairproxy.cli.demo.cluster import node_environment, pair, up_command
from pairproxy.security.private_files import write_private

SLOTS = 1024  # of the engine: no request of a workload waits for one
OTHER_MODEL = "other:latest"  # what the engine beside a peer's has, so that nothing is served there


def settings(name: str, url: str) -> str:
    """config.toml: one engine; ports that are free, and peers only on this machine, because it is a bench."""
    return f"""
[node]
name = "{name}"
[peers]
listen = "127.0.0.1:0"
loopback = true
[admin]
listen = "127.0.0.1:0"
[[engines]]
kind = "openai"
url = "{url}"
listen = "127.0.0.1:0"
slots = {SLOTS}
"""


@asynccontextmanager
async def daemon(home: Path, core: int, environment: Mapping[str, str]) -> AsyncIterator[Child]:
    """A daemon for the block; its log is in its home."""
    async with started(core, up_command(home), home / "log", environment) as child:
        yield child


async def _environment(place: Place, *, is_compiled: bool) -> Mapping[str, str]:
    """Of a daemon: whose package it imports."""
    if not is_compiled or await why_not_compiled(place.cache) is not None:
        return node_environment()
    return {**node_environment(), **imported_from(await compiled_package(place.cache / "bench"))}


async def why_not_compiled(cache: Path) -> str | None:
    """Compile it if it was not yet: why that cannot be, or None. What failed once fails again at once."""
    made_of = digest()
    if made_of not in _failed:
        try:
            await compiled_package(cache / "bench")
        except CannotBuild as error:
            _failed[made_of] = str(error)
    return _failed.get(made_of)


_failed: dict[str, str] = {}
"""Why sources could not be compiled in this process, by their digest."""


def made_home(directory: Path, name: str, url: str) -> Path:
    """A home with such settings."""
    home = directory / name
    home.mkdir(mode=0o700)
    write_private(home / "config.toml", settings(name, url).encode())
    return home


@asynccontextmanager
async def _alone(place: Place, *, is_compiled: bool) -> AsyncIterator[Running]:
    home = made_home(place.directory, "alone", place.upstream)
    environment = await _environment(place, is_compiled=is_compiled)
    async with daemon(home, PROXY_CORE, environment) as child:
        yield Running(await client_port(child, home), child)


@asynccontextmanager
async def _with_peer(place: Place, *, is_compiled: bool) -> AsyncIterator[Running]:
    environment = await _environment(place, is_compiled=is_compiled)
    other_port = free_port()
    here = made_home(place.directory, "here", f"http://127.0.0.1:{other_port}")
    there = made_home(place.directory, "there", place.upstream)
    await asyncio.to_thread(pair, {"here": here, "there": there})
    other = [str(place.upstream_program), str(other_port), OTHER_MODEL]
    async with (
        started(OTHER_CORE, other, place.directory / "other.log"),
        daemon(there, OTHER_CORE, environment),
        daemon(here, PROXY_CORE, environment) as child,
    ):
        yield Running(await client_port(child, here), child)


async def client_port(child: Child, home: Path) -> int:
    """The port of its only engine, as soon as a request is answered there. Raises CannotStart."""
    try:
        async with asyncio.timeout(READY_S):
            while not await asyncio.to_thread(_is_up, home):
                if child.process.returncode is not None:
                    raise CannotStart(child.last_words())
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        raise CannotStart(f"not up within {READY_S:.0f} s: {child.last_words()}") from None
    port = next(iter(read_daemon_file(home).client_ports.values()))
    await until_answers(child, port, OPENAI_PATH, READY_BODY)
    return port


def _is_up(home: Path) -> bool:
    try:
        status = get_status(home)
    except NoDaemon:
        return False
    return all(node.is_up and any(engine.replicas for engine in node.engines) for node in status.nodes)


PAIRPROXY = Target("pairproxy", "everything on", partial(_alone, is_compiled=True), is_compiled=True)
PYTHON = Target("pairproxy-python", "the same, not compiled", partial(_alone, is_compiled=False))
PAIRED = Target(
    "pairproxy-peer", "to a paired daemon on the other core", partial(_with_peer, is_compiled=True),
    is_pair=True, is_compiled=True,
)  # fmt: skip
PAIRED_PYTHON = Target(
    "pairproxy-python-peer", "the same, not compiled", partial(_with_peer, is_compiled=False),
    is_pair=True,
)  # fmt: skip
