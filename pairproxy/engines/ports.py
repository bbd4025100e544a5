"""Which loopback ports engines and their clients use; docs/configuration.md names the settings."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from pairproxy.config import EngineKind, EngineSettings, is_loopback
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
        is_moved = client_port(settings) == f"{HOST}:{ports.usual}"
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


def how_to_go_on(kind: str) -> str:
    """What to do when the client port of an engine of this kind is taken."""
    if any(kind == name and ports.moved is not None for name, ports in PORTS.items()):
        return "Move the engine to another port and start it again, or set engines.listen to a free port."
    return "Stop that program, or give this engine another port with engines.listen in config.toml."
