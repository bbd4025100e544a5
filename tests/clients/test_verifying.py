"""The comparison that scripts/verify-real makes."""

from pathlib import Path

import pytest

from tests.clients.verifying import differences, shape, verify
from tests.support.engine_thread import in_thread
from tests.support.fake_lmstudio import MODEL as STUDIO_MODEL
from tests.support.fake_lmstudio import lmstudio_in_thread
from tests.support.fake_ollama import ollama_surface
from tests.support.fake_ollama_reply import MODEL


def test_equal_results_have_no_difference() -> None:
    """The same results are the same."""
    assert differences({"chat": "a"}, {"chat": "a"}) == ([], [])


def test_other_words_are_told_apart_from_another_form() -> None:
    """A reply may have other words and more of them; a list, an error or a missing call may not differ."""
    words = {"stream": [["a", None], ["b", "stop"]]}
    assert differences(words, {"stream": [["x", None], ["y", None], ["z", "stop"]]}) == ([], ["stream"])
    assert differences(words, {"stream": "x"}) == (["stream"], [])
    assert differences({"listing": ["a"]}, {"listing": ["b"]}) == (["listing"], [])
    assert differences({"chat": "a"}, {"chat": {"failure": "E", "status": 1}}) == (["chat"], [])
    assert differences({"chat": "a"}, {}) == (["chat"], [])


def test_a_shape_has_no_words() -> None:
    """Types and keys stay, repetitions are one."""
    assert shape([["a", 1], ["b", 2], {"k": None}]) == [["text", "int"], {"k": "text"}]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_server_is_verified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Against engines of either kind the table names the clients, and the status is 0."""
    with in_thread(ollama_surface()) as engine:
        assert verify(engine.url, MODEL, "ollama", frozenset({"ollama", "npm_openai"}), tmp_path / "one") == 0
    with lmstudio_in_thread() as studio:
        assert (
            verify(studio.url, STUDIO_MODEL, "lmstudio", frozenset({"npm_lmstudio"}), tmp_path / "two") == 0
        )
    told = capsys.readouterr().out
    assert "npm_openai" in told
    assert "npm_lmstudio" in told


def test_an_unknown_client_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With no client left the status is 2 and those that exist are told."""
    assert verify("http://127.0.0.1:9", MODEL, "ollama", frozenset({"curl"}), tmp_path) == 2
    assert "npm_openai" in capsys.readouterr().out
