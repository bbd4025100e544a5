"""One scene for all tests of a module: its daemons and engines take some seconds to start."""

from collections.abc import Iterator

import pytest

from tests.clients.scenes import Scene, embedded_scene, fake_scene, studios_scene


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Embedded engines: a real model, llama.cpp's own bytes."""
    with embedded_scene(tmp_path_factory.mktemp("embedded")) as scene:
        yield scene


@pytest.fixture(scope="module")
def fake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Engines with the real Ollama's documented bytes."""
    with fake_scene(tmp_path_factory.mktemp("fake")) as scene:
        yield scene


@pytest.fixture(scope="module")
def studios(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Engines that answer as LM Studio is documented to."""
    with studios_scene(tmp_path_factory.mktemp("studios")) as scene:
        yield scene
