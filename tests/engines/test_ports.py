import pytest

from pairproxy.config import EngineSettings
from pairproxy.core.errors import ConfigError
from pairproxy.engines.ports import client_port, engine_address


@pytest.mark.parametrize(
    ("kind", "listen", "stands_at", "engine_at"),
    [
        ("ollama", None, "127.0.0.1:11434", 11534),
        ("ollama", "", None, 11434),
        ("ollama", "127.0.0.1:5000", "127.0.0.1:5000", 11434),
        ("lmstudio", None, "127.0.0.1:1234", 12340),
        ("llamacpp", None, None, 8080),
        ("openai", "127.0.0.1:8001", "127.0.0.1:8001", 8000),
    ],
)
def test_engine_and_client_port_never_meet(
    kind: str, listen: str | None, stands_at: str | None, engine_at: int
) -> None:
    """Where we stand at an engine's usual port, we look for the engine at the port it moves to."""
    settings = EngineSettings(kind=kind, listen=listen)  # type: ignore[arg-type]
    assert client_port(settings) == stands_at
    assert engine_address(settings) == ("127.0.0.1", engine_at)


@pytest.mark.parametrize("kind", ["embedded", "paced"])
def test_our_own_engines_stand_for_ollama(kind: str) -> None:
    """Engines that we bring are found by Ollama's clients without being told."""
    assert client_port(EngineSettings(kind=kind)) == "127.0.0.1:11434"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://127.0.0.1:9000", ("127.0.0.1", 9000)),
        ("http://localhost:9000/", ("localhost", 9000)),
        ("http://[::1]:9000", ("::1", 9000)),
        ("http://127.1.2.3", ("127.1.2.3", 8080)),
    ],
)
def test_a_loopback_url_is_taken(url: str, address: tuple[str, int]) -> None:
    """Any spelling of this machine will do; a missing port is the usual one."""
    assert engine_address(EngineSettings(kind="llamacpp", url=url)) == address


@pytest.mark.parametrize(
    "url",
    [
        "http://192.168.1.5:8080",
        "https://127.0.0.1:1",
        "http://127.0.0.1:99999",
        "http://x:y:z",
        "127.0.0.1:8080",
        "http://localhost.evil.example:80",
        "http://127.0.0.1:80/v1",
        "http://0.0.0.0:80",
        "",
    ],
)
def test_any_other_url_is_refused(url: str) -> None:
    """An engine elsewhere, or a URL that is none, is an error that says what is right."""
    with pytest.raises(ConfigError, match=r"engines\.url = "):
        engine_address(EngineSettings(kind="llamacpp", url=url))
