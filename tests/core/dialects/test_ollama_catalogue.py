import re

from pairproxy.core.dialects.ollama_catalogue import (
    ModelCard,
    openai_entry,
    ps_reply,
    show_reply,
    tags_reply,
    version_reply,
)

CARD = ModelCard(
    name="smollm2:135m",
    digest="ab" * 32,
    size_bytes=98_362_432,
    family="llama",
    parameter_size="134.5M",
    quantization_level="Q4_1",
    context_length=4096,
    embedding_length=576,
    modified_at="2026-01-01T00:00:00Z",
    parameter_count=134_515_008,
)


def test_tags_has_every_field_a_client_reads() -> None:
    """An entry of /api/tags names the model, its content, its size and its details."""
    (entry,) = tags_reply(CARD)["models"]
    assert entry["name"] == entry["model"] == "smollm2:135m"
    assert (entry["digest"], entry["size"], entry["modified_at"]) == (
        CARD.digest,
        CARD.size_bytes,
        CARD.modified_at,
    )
    assert entry["details"]["families"] == ["llama"]
    assert entry["details"]["context_length"] == 4096
    assert entry["capabilities"] == ["completion"]


def test_ps_tells_the_window_and_when_it_ends() -> None:
    """An entry of /api/ps has the context length that routers compare."""
    (entry,) = ps_reply(CARD, "2318-01-01T00:00:00Z")["models"]
    assert (entry["context_length"], entry["expires_at"]) == (4096, "2318-01-01T00:00:00Z")
    assert entry["size_vram"] == 0


def test_show_names_the_weights() -> None:
    """The first FROM line of the modelfile carries the digest by which nodes compare weights."""
    shown = show_reply(CARD)
    found = re.search(r"^FROM \S*sha256-([0-9a-f]{64})$", shown["modelfile"], re.MULTILINE)
    assert found is not None
    assert found[1] == CARD.digest
    assert shown["template"] in shown["modelfile"]


def test_show_has_what_editors_ask_for() -> None:
    """Copilot and JetBrains read capabilities and the context length under the architecture's name."""
    shown = show_reply(CARD)
    info = shown["model_info"]
    assert info[f"{info['general.architecture']}.context_length"] == 4096
    assert shown["capabilities"] == ["completion"]


def test_the_version_satisfies_copilot() -> None:
    """Copilot asks for 0.6.4 at least."""
    assert tuple(map(int, version_reply()["version"].split("."))) >= (0, 6, 4)


def test_the_entry_of_openais_list_is_ollamas() -> None:
    """Its four keys in their order, ``created`` as Unix time."""
    assert list(openai_entry(CARD, 5).items()) == [
        ("id", CARD.name),
        ("object", "model"),
        ("created", 5),
        ("owned_by", "library"),
    ]
