"""Which engines run on this machine: the ports they are known to use, asked all at once."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from pairproxy.config import EngineKind, EngineSettings
from pairproxy.core.errors import UpstreamError
from pairproxy.engines.ask import ask
from pairproxy.engines.lmstudio import is_model_list
from pairproxy.engines.ports import HOST, PORTS
from pairproxy.engines.sought import IsOurs

PROBE_TIMEOUT_S = 0.5  # for all questions to one port; an engine on loopback answers in milliseconds
PORTS_TO_TRY = (11434, 11534, 1234, 12340, 8080, 8000)
LATER_PORTS = (8080, 8000)  # where an engine may come later, and many a program that is none
LATER_S = 10.0  # between two looks there; a model of llama.cpp or vLLM takes longer to load
STRANGE_S = 300.0  # for which another program is left alone: each question stands in its log

NAMES: dict[EngineKind, str] = {
    "ollama": "Ollama",
    "lmstudio": "LM Studio",
    "llamacpp": "llama.cpp",
    "openai": "vLLM or another server with OpenAI's API",
}


async def find_engines(ports: tuple[int, ...] = PORTS_TO_TRY) -> list[EngineSettings]:
    """Return settings for each engine that answers, in the order of ``ports``.

    An Ollama or LM Studio at the port we moved it to hides one at its usual port: that is a front.
    """
    kinds = await asyncio.gather(*(kind_at(port) for port in ports))
    found = dict(zip(ports, kinds, strict=True))
    fronts = {
        PORTS[kind].usual for port, kind in found.items() if kind is not None and port == PORTS[kind].moved
    }
    return [
        EngineSettings(kind=kind, url=f"http://{HOST}:{port}")
        for port, kind in found.items()
        if kind is not None and port not in fronts
    ]


def looked_for() -> tuple[str, ...]:
    """What find_engines() would have found and where, as parts of a sentence for a person."""
    return tuple(
        f"{name} on port {PORTS[kind].usual}" + (f" or {moved}" if (moved := PORTS[kind].moved) else "")
        for kind, name in NAMES.items()
    )


def entries_of(found: Sequence[EngineSettings]) -> tuple[EngineSettings, ...]:
    """The engines of a node whose settings name none: those that may come, and those found elsewhere.

    Ollama and LM Studio are sought as long as the daemon runs, at both of their ports. Whatever else was
    found gets no client port: only those two have one where clients look.
    """
    sought = tuple(EngineSettings(kind=kind) for kind, ports in PORTS.items() if ports.moved is not None)
    known = {(one.kind, f"http://{HOST}:{port}") for one in sought for port in _ports_of(one.kind)}
    others = (one for one in found if (one.kind, one.url) not in known)
    return (*sought, *(msgspec.structs.replace(one, listen="") for one in others))


def _ports_of(kind: EngineKind) -> tuple[int, ...]:
    ports = PORTS[kind]
    return (ports.usual,) if ports.moved is None else (ports.usual, ports.moved)


class Finder:
    """Looks again and again for engines at ports that other programs use as well (llama.cpp, vLLM)."""

    def __init__(
        self, known: Iterable[EngineSettings], add: Callable[[EngineSettings], None], is_ours: IsOurs
    ) -> None:
        """``known``: engines that are watched already. ``add`` hears of each other one, once."""
        known_at = {one.url for one in known}
        self._ports = [port for port in LATER_PORTS if f"http://{HOST}:{port}" not in known_at]
        self._add, self._is_ours = add, is_ours
        self._not_before: dict[int, float] = {}

    async def run(self) -> None:
        """Until each port has its engine, or cancelled."""
        while self._ports:
            await asyncio.sleep(LATER_S)
            for port in tuple(self._ports):
                await self._look_at(port)

    async def _look_at(self, port: int) -> None:
        now = asyncio.get_running_loop().time()
        if self._is_ours(port) or now < self._not_before.get(port, now) or not await _is_taken(port):
            return
        kind = await kind_at(port)
        if kind is None:
            self._not_before[port] = now + STRANGE_S
            return
        self._ports.remove(port)
        self._add(EngineSettings(kind=kind, url=f"http://{HOST}:{port}", listen=""))


async def _is_taken(port: int) -> bool:
    """Whether anybody listens there; nothing is asked."""
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            _, writer = await asyncio.open_connection(HOST, port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


async def kind_at(port: int) -> EngineKind | None:
    """Which kind of engine answers at a port of loopback; None: none that is known.

    Ask from the most telling question to the least; each server fails those of the others.
    """
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            for kind, path, fits in QUESTIONS:
                if fits(await _ask_or_none(port, path)):
                    return kind
    except TimeoutError:
        pass
    return None


async def _ask_or_none(port: int, path: str) -> Any:
    try:
        return await ask(HOST, port, path)
    except UpstreamError:
        return None


def _has(key: str, kind: type) -> Callable[[Any], bool]:
    return lambda reply: isinstance(reply, dict) and isinstance(reply.get(key), kind)


QUESTIONS: tuple[tuple[EngineKind, str, Callable[[Any], bool]], ...] = (
    ("ollama", "/api/version", _has("version", str)),
    ("lmstudio", "/api/v0/models", is_model_list),
    ("llamacpp", "/props", _has("total_slots", int)),
    ("openai", "/v1/models", _has("data", list)),
)
"""(kind, path, whether the reply fits it)."""
