"""Which loopback ports engines and their clients use; docs/configuration.md names the settings."""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from pairproxy.config import EngineKind, EngineSettings, is_loopback, parse_listen
from pairproxy.core.errors import ConfigError

HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Ports:
    """``usual``: where its clients look for it; ``moved``: where it lives when we stand there instead."""

    usual: int
    moved: int | None = None


PORTS: dict[EngineKind, Ports] = {
    "ollama": Ports(11434, 11534),
    "lmstudio": Ports(1234, 12340),
    "llamacpp": Ports(8080),  # its clients are told a port by hand: nothing to stand in for
    "openai": Ports(8000),  # vLLM's; the same
}
SPARE = 11600  # shown where somebody has to choose a port; nothing known uses it
MOVES = {
    "ollama": f"stop it and start it with `OLLAMA_HOST={HOST}:11534 ollama serve`",
    "lmstudio": "stop it and start it with `lms server start --port 12340`",
}
"""How an engine is started at the port it moves to."""
STANDS_FOR_OLLAMA = ("embedded", "paced")  # these bring nothing of their own, so Ollama's clients find them


def client_port(settings: EngineSettings) -> str | None:
    """``host:port`` of the client port that stands for this engine; None if it gets none."""
    if settings.listen is not None:
        return settings.listen or None
    if settings.kind in STANDS_FOR_OLLAMA:
        return f"{HOST}:{PORTS['ollama'].usual}"
    ports = PORTS[settings.kind]
    return f"{HOST}:{ports.usual}" if ports.moved is not None else None


def engine_address(settings: EngineSettings) -> tuple[str, int]:
    """Where a found engine answers: (host, port). Raises ConfigError if that is not on this machine."""
    ports = PORTS[settings.kind]
    if settings.url is None:
        front = client_port(settings)
        is_moved = front is not None and _is_one_place(
            (HOST, ports.usual), parse_listen(front, "engines.listen")
        )
        return HOST, ports.moved if is_moved and ports.moved is not None else ports.usual
    try:
        parts = urlsplit(settings.url)
        host, port = parts.hostname or "", parts.port or ports.usual
    except ValueError:
        host, port, parts = "", 0, urlsplit("")
    if parts.scheme != "http" or not is_loopback(host) or parts.path not in ("", "/"):
        raise ConfigError(
            f"engines.url = {settings.url!r}: an engine is one on this machine, such as "
            f"http://{HOST}:{ports.usual}. For one on another machine run pairproxy there and pair the two."
        )
    return host, port


def refuse_loops(entries: Sequence[EngineSettings]) -> None:
    """Raise ConfigError for an engine that would be sought where this daemon itself listens for clients."""
    for listening in entries:
        text = client_port(listening)
        if text is None:
            continue
        here = parse_listen(text, "engines.listen")
        for entry in entries:
            if entry.kind not in STANDS_FOR_OLLAMA and _is_one_place(engine_address(entry), here):
                raise ConfigError(
                    f"engines.url and engines.listen meet: pairproxy would look for {entry.kind} on port "
                    f"{here[1]}, where it listens itself. Give one of the two another port, for example "
                    f'listen = "{HOST}:{SPARE}".'
                )


def _is_one_place(engine: tuple[str, int], listening: tuple[str, int]) -> bool:
    """Whether two loopback addresses lead to one socket; localhost and ::1 come with 127.0.0.1."""
    same = {engine[0], listening[0]} <= {HOST, "localhost", "::1"}
    return engine[1] == listening[1] != 0 and (same or engine[0] == listening[0])


def how_to_go_on(kind: str) -> str:
    """What to do when the client port of an engine of this kind is taken."""
    if kind in STANDS_FOR_OLLAMA:
        return (
            f"Stop that program, or start with `pairproxy up --engine {kind} --listen {HOST}:{SPARE}` (or "
            "set engines.listen in config.toml) and point your clients there."
        )
    if kind in MOVES:
        return (
            f"If that is the engine itself, let it make room: {MOVES[kind]}, where `pairproxy up` looks for "
            "it. Or leave it there and give config.toml an [[engines]] entry with "
            f'kind = "{kind}" and listen = "{HOST}:{SPARE}" (engines.listen), and point your clients there.'
        )
    return "Stop that program, or give this engine another port with engines.listen in config.toml."
