import pytest

from pairproxy.config import EngineSettings
from pairproxy.core.errors import ConfigError
from pairproxy.engines.ports import client_port, engine_address, how_to_go_on, refuse_loops


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


@pytest.mark.parametrize(
    "entries",
    [
        [EngineSettings(kind="ollama", url="http://localhost:11434")],
        [EngineSettings(kind="llamacpp", listen="127.0.0.1:8080")],
        [EngineSettings(kind="openai", url="http://[::1]:9000", listen="127.0.0.1:9000")],
        [EngineSettings(kind="paced"), EngineSettings(kind="llamacpp", url="http://127.0.0.1:11434")],
    ],
)
def test_a_loop_is_refused(entries: list[EngineSettings]) -> None:
    """No engine is sought where a client port of this daemon stands, in whatever spelling."""
    with pytest.raises(ConfigError, match=r"engines\.url and engines\.listen meet"):
        refuse_loops(entries)


def test_what_does_not_meet_is_no_loop() -> None:
    """The usual settings, no port at all, and the port that the system chooses are fine."""
    refuse_loops(
        [
            EngineSettings(kind="ollama"),
            EngineSettings(kind="lmstudio", listen=""),
            EngineSettings(kind="paced", listen="127.0.0.1:0"),
            EngineSettings(kind="ollama", listen="localhost:11434"),
        ]
    )


@pytest.mark.parametrize(
    ("kind", "way"),
    [
        ("ollama", "OLLAMA_HOST=127.0.0.1:11534 ollama serve"),
        ("lmstudio", "lms server start --port 12340"),
        ("embedded", "pairproxy up --engine embedded --listen 127.0.0.1:"),
        ("openai", "engines.listen"),
    ],
)
def test_a_taken_port_leads_somewhere(kind: str, way: str) -> None:
    """The command that makes room is said in full, with the port where the engine is looked for."""
    assert way in how_to_go_on(kind)
