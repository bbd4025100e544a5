"""Which engines run on this machine: the ports they are known to use, asked all at once."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from pairproxy.config import EngineKind, EngineSettings
from pairproxy.core.errors import UpstreamError
from pairproxy.engines.ask import ask
from pairproxy.engines.lmstudio import is_model_list
from pairproxy.engines.ports import HOST, PORTS, client_port

PROBE_TIMEOUT_S = 0.5  # for all questions to one port; an engine on loopback answers in milliseconds
PORTS_TO_TRY = (11434, 11534, 1234, 12340, 8080, 8000)

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
    kinds = await asyncio.gather(*(_kind_at(port) for port in ports))
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


def nothing_found() -> str:
    """The sentence for a machine without engines: what was looked for, and what to do."""
    return (
        f"There is nothing to serve: no engine answers (looked for {'; '.join(looked_for())}). "
        "Start an engine, or bring up the embedded one with `pairproxy up --engine embedded`, "
        "or try `pairproxy demo`."
    )


def with_a_client_port(found: Sequence[EngineSettings]) -> tuple[EngineSettings, ...]:
    """The same engines; if none of them has a client port, the first gets Ollama's.

    llama.cpp and vLLM have no port of their own to stand at, and a daemon without any serves nobody.
    """
    if not found or any(client_port(one) is not None for one in found):
        return tuple(found)
    first = msgspec.structs.replace(found[0], listen=f"{HOST}:{PORTS['ollama'].usual}")
    return (first, *found[1:])


async def _kind_at(port: int) -> EngineKind | None:
    """Ask from the most telling question to the least; each server fails those of the others."""
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
