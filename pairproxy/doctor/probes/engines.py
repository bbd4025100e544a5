"""The engines of this machine: those that the daemon knows, else those of the settings or usual ports."""

import asyncio
from collections.abc import Iterator

import psutil

from pairproxy.api.schema import EngineStatus
from pairproxy.config import EngineSettings, Settings
from pairproxy.core.errors import PairproxyError, UpstreamError
from pairproxy.doctor.facts import Listener, SeenEngine, Unknown
from pairproxy.doctor.probes.asking import Told
from pairproxy.engines.ask import ask
from pairproxy.engines.finder import find_engines
from pairproxy.engines.ports import HOST, STANDS_FOR_OLLAMA, engine_address

VERSION_PATHS = {"ollama": "/api/version", "openai": "/version"}  # the second is vLLM's
PARALLEL = "OLLAMA_NUM_PARALLEL"
PARALLEL_USUAL = 1  # of an Ollama since July 2025; before, it chose 4 or 1 by itself


def engines(
    told: Told, settings: Settings | Unknown, listening: tuple[Listener, ...] | Unknown
) -> tuple[SeenEngine, ...] | Unknown:
    """Each engine that is not ours, with its version and what its process was told."""
    try:
        return asyncio.run(_engines(told, settings, listening))
    except PairproxyError as error:
        return Unknown(error.sentence)


async def _engines(
    told: Told, settings: Settings | Unknown, listening: tuple[Listener, ...] | Unknown
) -> tuple[SeenEngine, ...] | Unknown:
    if not isinstance(told.status, Unknown):
        known = [engine for node in told.status.nodes if node.is_self for engine in node.engines]
        hosts = {} if isinstance(settings, Unknown) else dict(_places(settings.engines))
        return tuple(_known(one, hosts, listening) for one in known if one.kind not in STANDS_FOR_OLLAMA)
    if isinstance(settings, Unknown):
        return Unknown("the settings cannot be read")
    wanted = [one for one in settings.engines if one.kind not in STANDS_FOR_OLLAMA]
    entries = wanted if settings.engines else await find_engines()
    asked = await asyncio.gather(*(_ask(one, listening) for one in entries))
    return tuple(asked)


def _known(
    engine: EngineStatus, hosts: dict[int, str], listening: tuple[Listener, ...] | Unknown
) -> SeenEngine:
    """As the daemon tells of it; its id ends in its port."""
    text = engine.engine.rpartition("-")[2]
    port = int(text) if text.isdecimal() else 0
    return SeenEngine(
        engine.engine,
        engine.kind,
        hosts.get(port, HOST),
        port,
        engine.is_up,
        engine.version,
        engine.slots + engine.foreign,
        _parallel(engine.kind, port, listening),
    )


def _places(entries: tuple[EngineSettings, ...]) -> Iterator[tuple[int, str]]:
    for entry in entries:
        if entry.kind not in STANDS_FOR_OLLAMA:
            host, port = engine_address(entry)
            yield port, host


async def _ask(entry: EngineSettings, listening: tuple[Listener, ...] | Unknown) -> SeenEngine:
    host, port = engine_address(entry)
    version, is_up = "", True
    try:
        reply = await ask(host, port, VERSION_PATHS.get(entry.kind, "/v1/models"))
        said = reply.get("version") if isinstance(reply, dict) else None
        version = said if isinstance(said, str) and said.isprintable() else ""
    except UpstreamError:
        is_up = entry.kind == "openai"  # only vLLM has such a page
    parallel = _parallel(entry.kind, port, listening)
    return SeenEngine(
        f"{entry.kind}-{port}", entry.kind, host, port, is_up, version[:64], entry.slots, parallel
    )


def _parallel(kind: str, port: int, listening: tuple[Listener, ...] | Unknown) -> int | None:
    """How many requests an Ollama was told to compute at once, if its environment can be read."""
    if kind != "ollama" or isinstance(listening, Unknown):
        return None
    for one in listening:
        if one.port == port and one.pid is not None and one.name.startswith("ollama"):
            try:
                text = psutil.Process(one.pid).environ().get(PARALLEL, "")
            except (psutil.Error, OSError):
                return None
            return int(text) if text.isdecimal() and 0 < int(text) < 10_000 else PARALLEL_USUAL
    return None
