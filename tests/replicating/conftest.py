"""Two stores, and a holder that answers a paired receiver over mutual TLS."""

from pathlib import Path

import pytest

from tests.support.ollama_store import OllamaStore


@pytest.fixture
def anna(tmp_path: Path) -> OllamaStore:
    """The Ollama of the machine that has models."""
    return OllamaStore(tmp_path / "anna")


@pytest.fixture
def ben(tmp_path: Path) -> OllamaStore:
    """The Ollama of the machine that shall have them; it has one of its own."""
    store = OllamaStore(tmp_path / "ben")
    store.add("own:1", b"ben's own weights")
    return store
