from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairproxy.core.models import ModelName, Replica
from pairproxy.core.replicas import (
    CLOUD,
    LOCAL,
    canonical_name,
    differing,
    is_same,
    matches,
    source_of,
    with_aliases,
)

ONE = Replica(ModelName("m"), "sha256:1", 4096, facts="f")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("llama3", "llama3:latest"),
        ("Llama3:8B", "llama3:8b"),
        (" library/llama3 ", "llama3:latest"),
        ("registry.ollama.ai/library/llama3", "llama3:latest"),
        ("Registry.Ollama.AI/Library/llama3", "llama3:latest"),
        ("https://registry.ollama.ai/library/llama3:8b", "llama3:8b"),
        ("http://registry.ollama.ai/me/llama3", "me/llama3:latest"),
        ("me/llama3", "me/llama3:latest"),
        ("hf.co/Org/Model-GGUF:Q4_K_M", "hf.co/org/model-gguf:q4_k_m"),
        ("huggingface.co/Org/Model-GGUF:Q4_K_M", "huggingface.co/org/model-gguf:q4_k_m"),
        ("hf.co/library/m", "hf.co/library/m:latest"),
        ("library/a/b", "library/a/b:latest"),
        ("localhost:5000/me/llama3", "localhost:5000/me/llama3:latest"),
        ("localhost:5000/me/llama3:8b", "localhost:5000/me/llama3:8b"),
        ("accounts/some/models/Big-Model", "accounts/some/models/big-model:latest"),
        ("ft:gpt-4o:me::abc", "ft:gpt-4o:me::abc"),
        ("/models/one file.gguf", "/models/one file.gguf:latest"),
        ("", ""),
    ],
)
def test_a_model_has_one_spelling(text: str, name: str) -> None:
    """Ollama's defaults are filled in or left out, case does not matter, and other hosts are others."""
    assert canonical_name(text) == name


@given(st.text(alphabet="aB:/. -_\nhtps", max_size=40) | st.text(max_size=20))
def test_the_one_spelling_is_its_own(text: str) -> None:
    """Of any text at all: spelling it again changes nothing."""
    name = canonical_name(text)
    assert canonical_name(name) == name


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("gpt-oss:120b-cloud", CLOUD),
        ("GLM:Cloud", CLOUD),
        ("x:latest:cloud", CLOUD),
        ("me/x:cloud", CLOUD),
        ("m:local", LOCAL),
        ("m:8b:LOCAL", LOCAL),
        ("m:8b-cloud:local", CLOUD),
        ("m:local:cloud", CLOUD),
        ("m", None),
        ("cloud", None),
        ("my-cloud", None),
        ("local:5000/x/m", None),
        ("x:cloud/m", None),
        ("", None),
    ],
)
def test_a_name_may_insist_on_a_source(text: str, source: str | None) -> None:
    """Only by its tag, whatever the case; who insists on both stays as much as who insists on the cloud."""
    assert source_of(text) == source


def test_name_and_content_make_a_replica() -> None:
    """The size of its window does not."""
    assert is_same(ONE, replace(ONE, context_tokens=8192))
    assert not is_same(ONE, replace(ONE, identity="sha256:2", facts="g"))
    assert not is_same(ONE, replace(ONE, model=ModelName("n")))


def test_equal_facts_stand_for_equal_content() -> None:
    """An old node hashes the same model differently; facts that are not known equal nothing."""
    old = replace(ONE, identity="sha256:2")
    assert is_same(ONE, old)
    assert not is_same(replace(ONE, facts=""), replace(old, facts=""))
    assert not is_same(ONE, replace(old, facts=""))


def test_an_alias_vouches_for_its_model() -> None:
    """A person said so; the name must still be the one that was asked for."""
    alias = Replica(ONE.model, "openai:x", called="org/M")
    assert is_same(ONE, alias)
    assert is_same(alias, ONE)
    assert not is_same(replace(ONE, model=ModelName("n")), alias)


def test_embeddings_take_the_very_same_content() -> None:
    """Vectors that are compared with each other come from one content: neither facts nor a person suffice."""
    assert is_same(ONE, replace(ONE, facts=""), exactly=True)
    assert not is_same(ONE, replace(ONE, identity="sha256:2"), exactly=True)
    assert not is_same(ONE, replace(ONE, identity="x", called="y"), exactly=True)


def test_two_nodes_differ_in_the_names_that_mean_something_else() -> None:
    """A name is told if no replica here is the same as one there; names of one node only are not."""
    a, b, c = (ModelName(name) for name in "abc")
    here = [Replica(a, "1"), Replica(b, "1"), Replica(b, "2"), Replica(ModelName("mine"), "1")]
    there = [Replica(a, "2"), Replica(b, "2"), Replica(c, "1"), Replica(b, "3")]
    assert differing(here, there) == ("a",)
    assert differing(there, here) == ("a",)
    assert differing([], there) == ()


def test_an_alias_is_one_more_name_of_a_model() -> None:
    """It keeps content, window and state, and the name by which the engine itself knows it, as written."""
    listed = ((Replica(canonical_name("org/M"), "openai:1", 4096), True),)
    own, (alias, is_loaded) = with_aliases(listed, {"Small": "Org/M"})
    assert own == listed[0]
    assert (alias.model, alias.identity, alias.context_tokens) == ("small:latest", "openai:1", 4096)
    assert (alias.called, is_loaded) == ("Org/M", True)


@pytest.mark.parametrize("aliases", [{}, {"a": "gone"}, {"org/m": "other"}, {"": "org/m"}, {"a": ""}])
def test_an_alias_of_nothing_is_none(aliases: dict[str, str]) -> None:
    """An engine that does not list the model now does not serve it, and its own names stay its own."""
    listed = tuple((Replica(canonical_name(name), name), True) for name in ("org/m", "other"))
    assert with_aliases(listed, aliases) == listed


@pytest.mark.parametrize(
    ("pattern", "name", "does"),
    [
        ("llama3", "llama3:latest", True),
        ("Llama3:8B", "llama3:8b", True),
        ("llama3", "llama3:8b", False),
        ("llama3*", "llama3.1:8b", True),
        ("llama3:*", "llama3:8b", True),
        ("*", "anything:latest", True),
        ("*/secret*", "me/secret-model:latest", True),
        ("library/llama3", "llama3:latest", True),
        ("secret", "me/secret:latest", False),
        ("", "llama3:latest", False),
    ],
)
def test_a_pattern_stands_for_models(pattern: str, name: str, does: bool) -> None:
    """Spelled as people spell names, with stars for what they leave open."""
    assert matches(ModelName(name), ["other", pattern]) is does
