import sys
from pathlib import Path

import pytest

from pairproxy.config import EngineSettings, Settings
from pairproxy.doctor.facts import SeenEngine, Unknown
from pairproxy.doctor.probes.asking import Told
from pairproxy.doctor.probes.engines import engines
from pairproxy.doctor.probes.listening import listeners
from tests.support.diagnosed import matrix, status
from tests.support.doctored import Engine
from tests.support.engine_thread import in_thread
from tests.support.fake_ollama import ollama_surface

GONE = Told(None, Unknown("no daemon"), Unknown("no daemon"))


def known(*entries: EngineSettings) -> tuple[SeenEngine, ...]:
    """What is seen of them without a daemon."""
    found = engines(GONE, Settings(engines=entries), listeners())
    assert isinstance(found, tuple)
    return found


def test_without_a_daemon_the_engines_of_the_settings_are_asked() -> None:
    """Those that are ours are not: they live in the daemon."""
    with in_thread(ollama_surface()) as fake:
        url = f"http://127.0.0.1:{fake.port}"
        (found,) = known(EngineSettings(kind="ollama", url=url, slots=3), EngineSettings(kind="paced"))
    assert (found.id, found.is_up, found.version, found.slots) == (f"ollama-{fake.port}", True, "0.33.0", 3)
    (gone,) = known(EngineSettings(kind="ollama", url=url))
    assert (gone.is_up, gone.version) == (False, "")


def test_with_a_daemon_it_is_as_the_daemon_says() -> None:
    """Its id ends in its port; an address that the settings name is kept."""
    found = engines(Told(None, status(), matrix()), Settings(), Unknown("not shown"))
    assert found == (SeenEngine("ollama-11534", "ollama", "127.0.0.1", 11534, True, "0.35.1", 1, None),)


def test_what_an_ollama_was_told_is_read_from_its_process(tmp_path: Path) -> None:
    """OLLAMA_NUM_PARALLEL; without it an Ollama of today computes one at a time."""
    if sys.platform != "linux":
        pytest.skip("a script has the name of its interpreter here")
    engine = Engine(tmp_path, "X")
    entry = EngineSettings(kind="ollama", url=f"http://127.0.0.1:{engine.port}")
    try:
        engine.start(OLLAMA_NUM_PARALLEL="4")
        assert [one.parallel for one in known(entry)] == [4]
        engine.stop()
        engine.start()
        assert [one.parallel for one in known(entry)] == [1]
    finally:
        engine.stop()


def test_settings_that_cannot_be_read_name_no_engine() -> None:
    """And what is no engine of this machine is said."""
    assert engines(GONE, Unknown("broken"), ()) == Unknown("the settings cannot be read")
    away = Settings(engines=(EngineSettings(kind="ollama", url="http://10.0.0.9:11434"),))
    assert isinstance(engines(GONE, away, ()), Unknown)
