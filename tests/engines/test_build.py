import logging
from pathlib import Path

import pytest

from pairproxy.config import ENGINE_KINDS, EngineSettings, PacedSettings
from pairproxy.core.errors import ConfigError
from pairproxy.engines.build import build_engine
from pairproxy.engines.paced import PacedEngine
from pairproxy.interfaces import Engine


def build(settings: EngineSettings, cache: Path) -> Engine:
    """The engine, not started."""
    return build_engine(settings, cache, lambda done, total: None, logging.getLogger("tests"))


@pytest.mark.parametrize("kind", ENGINE_KINDS)
def test_every_kind_of_the_settings_can_be_built(kind: str, tmp_path: Path) -> None:
    """Each has its kind, a name of its own, and touches nothing before it is started."""
    engine = build(EngineSettings(kind=kind), tmp_path)  # type: ignore[arg-type]
    assert engine.kind == kind
    assert engine.id.split("-")[0] == kind
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("kind", "listen"),
    [
        ("ollama", "127.0.0.1:11434"),
        ("lmstudio", "127.0.0.1:1234"),
        ("embedded", "127.0.0.1:11434"),
        ("paced", "127.0.0.1:11434"),
        ("llamacpp", None),
        ("openai", None),
    ],
)
def test_an_engine_gets_the_port_that_its_clients_expect(
    kind: str, listen: str | None, tmp_path: Path
) -> None:
    """Unless the settings say another one, or that there is to be none."""
    assert build(EngineSettings(kind=kind), tmp_path).listen == listen  # type: ignore[arg-type]
    assert build(EngineSettings(kind=kind, listen="127.0.0.1:9"), tmp_path).listen == "127.0.0.1:9"  # type: ignore[arg-type]
    assert build(EngineSettings(kind=kind, listen=""), tmp_path).listen is None  # type: ignore[arg-type]


def test_a_paced_engine_has_the_pace_of_its_settings(tmp_path: Path) -> None:
    """Rates and slots come from [engines.paced] and the entry; one slot if none is said."""
    paced = PacedSettings(decode=7.0)
    engine = build(EngineSettings(kind="paced", slots=3, paced=paced), tmp_path)
    assert isinstance(engine, PacedEngine)
    assert (engine.settings, engine.gpu.slots.count) == (paced, 3)
    alone = build(EngineSettings(kind="paced"), tmp_path)
    assert isinstance(alone, PacedEngine)
    assert alone.gpu.slots.count == 1


def test_wrong_numbers_are_refused(tmp_path: Path) -> None:
    """As settings, with the section's name."""
    with pytest.raises(ConfigError, match=r"engines\.paced"):
        build(EngineSettings(kind="paced", paced=PacedSettings(decode=0.0)), tmp_path)
