"""Two stores, and a holder that answers a paired receiver over mutual TLS."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.test_mixed_engines import before
from tests.support.command import here
from tests.support.daemons import Daemons, Node
from tests.support.engine_thread import in_thread
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


@dataclass
class Pair:
    """Two daemons, each before a store of its own; A is paired with B both ways."""

    daemons: Daemons
    a: Node
    b: Node
    at_a: OllamaStore
    at_b: OllamaStore

    def allow(self, is_allowed: bool = True) -> None:
        """Let B's owner say whether A may add models."""
        flag = "--may-add-models" if is_allowed else "--may-not-add-models"
        assert here("rights", "A", flag, "--home", self.b.home).returncode == 0


@contextlib.contextmanager
def two_daemons(directory: Path) -> Iterator[Pair]:
    """Start them; each has one model that the other has not."""
    at_a, at_b = OllamaStore(directory / "models-a"), OllamaStore(directory / "models-b")
    at_a.add("first:1", b"of A")
    at_b.add("own:1", b"of B")
    with in_thread(at_a.script) as first, in_thread(at_b.script) as second, Daemons(directory) as daemons:
        daemons.home("A", before(first, "ollama"))
        daemons.home("B", before(second, "ollama"))
        daemons.pair("A", "B")
        a, b = daemons.start("A", "B")
        daemons.until_connected()
        yield Pair(daemons, a, b, at_a, at_b)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """For tests that leave both running."""
    with two_daemons(tmp_path_factory.mktemp("pair")) as found:
        yield found
