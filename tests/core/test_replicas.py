import pytest

from pairproxy.core.models import ModelName, Replica
from pairproxy.core.replicas import canonical_name, is_same


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("llama3", "llama3:latest"),
        ("Llama3:8B", "llama3:8b"),
        (" library/llama3 ", "llama3:latest"),
        ("registry.ollama.ai/library/llama3", "llama3:latest"),
        ("https://registry.ollama.ai/library/llama3:8b", "llama3:8b"),
        ("me/llama3", "me/llama3:latest"),
        ("hf.co/Org/Model-GGUF:Q4_K_M", "hf.co/org/model-gguf:q4_k_m"),
        ("localhost:5000/me/llama3", "localhost:5000/me/llama3:latest"),
        ("", ""),
    ],
)
def test_a_model_has_one_spelling(text: str, name: str) -> None:
    """Ollama's defaults are filled in or left out, case does not matter; doing it twice changes nothing."""
    assert canonical_name(text) == name
    assert canonical_name(canonical_name(text)) == name


def test_name_and_content_make_a_replica() -> None:
    """The size of its window does not."""
    one = Replica(ModelName("m"), "sha256:1", 4096)
    assert is_same(one, Replica(ModelName("m"), "sha256:1", 8192))
    assert not is_same(one, Replica(ModelName("m"), "sha256:2", 4096))
    assert not is_same(one, Replica(ModelName("n"), "sha256:1", 4096))
