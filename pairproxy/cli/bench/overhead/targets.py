"""Who stands between clients and upstream: nothing, web servers, a plain pass-through."""

import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pairproxy.cli.bench.overhead.environments import CannotInstall, environment
from pairproxy.cli.bench.overhead.processes import (
    PROXY_CORE,
    CannotStart,
    Child,
    free_port,
    started,
    until_answers,
)

OPENAI_PATH = "/v1/chat/completions"
MODEL = "bench:latest"  # the upstream's; with a tag, because ollama-herd adds one to names without
PASS_THROUGH = Path(__file__).parent.parent / "pass_through.py"
CONNECTIONS = 4096  # more than all clients and their upstream connections
READY_BODY = json.dumps(
    {"model": MODEL, "stream": False, "messages": [{"role": "user", "content": "Are you there?"}]}
).encode()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a target may put its files, where its upstream is, and where installed routers are."""

    directory: Path
    upstream_port: int
    upstream_program: Path
    cache: Path

    @property
    def upstream(self) -> str:
        """Its URL."""
        return f"http://127.0.0.1:{self.upstream_port}"


@dataclass(frozen=True, slots=True)
class Running:
    """A target that answers. No child: the upstream itself."""

    port: int
    child: Child | None = None


Start = Callable[[Place], AbstractAsyncContextManager[Running]]


@dataclass(frozen=True, slots=True)
class Target:
    """One of them. ``needs``: a program on PATH, with the words for who has it not."""

    name: str
    about: str
    start: Start
    needs: tuple[str, str] | None = None
    is_router: bool = False  # only asked for on request: another router
    is_pair: bool = False  # two daemons: only for what goes through a peer
    is_compiled: bool = False  # ours, from a wheel of this tree

    @property
    def missing(self) -> str | None:
        """What to install, if something is."""
        if self.needs is None or shutil.which(self.needs[0]):
            return None
        return f"not on PATH (Debian: `apt install {self.needs[1]}`)"


@dataclass(frozen=True, slots=True)
class Written:
    """A program with a file of settings and its port: what most targets are."""

    command: Callable[[Place, int, Path], list[str]]
    settings: Callable[[Place, int], str] = lambda place, port: ""
    environment: Mapping[str, str] = field(default_factory=dict)

    @asynccontextmanager
    async def start(self, place: Place) -> AsyncIterator[Running]:
        """Run it until it answers, for the block. Raises CannotStart."""
        port, file = free_port(), place.directory / "settings"
        file.write_text(self.settings(place, port))
        surroundings = {**os.environ, "HOME": str(place.directory), **self.environment}
        command = self.command(place, port, file)
        async with started(PROXY_CORE, command, place.directory / "log", surroundings) as child:
            await until_answers(child, port, OPENAI_PATH, READY_BODY)
            yield Running(port, child)


@asynccontextmanager
async def _direct(place: Place) -> AsyncIterator[Running]:
    yield Running(place.upstream_port)


def _nginx(place: Place, port: int) -> str:
    """Replies unbuffered as for every stream of tokens, upstream connections kept, bodies in memory."""
    return f"""
worker_processes 1; daemon off; pid {place.directory}/pid; error_log stderr;
events {{ worker_connections {CONNECTIONS}; }}
http {{
  access_log off; keepalive_requests 1000000; client_max_body_size 64m; client_body_buffer_size 8m;
  client_body_temp_path {place.directory}/body; proxy_temp_path {place.directory}/proxy;
  fastcgi_temp_path {place.directory}/f; uwsgi_temp_path {place.directory}/u;
  scgi_temp_path {place.directory}/s;
  upstream engine {{ server 127.0.0.1:{place.upstream_port}; keepalive 1024; keepalive_requests 1000000; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://engine; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
    }}
  }}
}}
"""


def _haproxy(place: Place, port: int) -> str:
    return f"""
global
  nbthread 1
  maxconn {CONNECTIONS}
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  option http-no-delay
  http-reuse always
frontend clients
  bind 127.0.0.1:{port}
  default_backend engine
backend engine
  server engine 127.0.0.1:{place.upstream_port}
"""


def _pass_through(place: Place, port: int, _: Path) -> list[str]:
    return [sys.executable, str(PASS_THROUGH), place.upstream, str(port)]


async def installed(name: str, place: Place) -> Path:
    """The programs of another router. Raises CannotStart."""
    try:
        return await environment(name, place.cache)
    except CannotInstall as error:
        raise CannotStart(f"cannot be installed: {error}") from None


DIRECT = Target("direct", "no proxy", _direct)
NGINX = Target(
    "nginx", "unbuffered, upstream connections kept", needs=("nginx", "nginx-light"),
    start=Written(lambda place, port, file: ["nginx", "-c", str(file)], _nginx).start,
)  # fmt: skip
HAPROXY = Target(
    "haproxy", "one thread, http-no-delay", needs=("haproxy", "haproxy"),
    start=Written(lambda place, port, file: ["haproxy", "-db", "-f", str(file)], _haproxy).start,
)  # fmt: skip
PLAIN = Target("pass-through", "plain aiohttp, asyncio", Written(_pass_through).start)
PLAIN_UVLOOP = Target(
    "pass-through-uvloop", "plain aiohttp, uvloop",
    Written(lambda place, port, file: [*_pass_through(place, port, file), "uvloop"]).start,
)  # fmt: skip
