"""What an Ollama server says about its models: the entries of /api/tags, /api/ps, /api/show."""

from dataclasses import dataclass
from typing import Any

OLLAMA_VERSION = "0.33.0"
"""The revision of Ollama's API that is spoken here; Copilot asks for 0.6.4 at least."""


@dataclass(frozen=True, slots=True)
class ModelCard:
    """The one model of an engine, as its Ollama face describes it.

    ``digest`` is 64 hex digits naming the content; ``modified_at`` is RFC 3339; sizes are bytes and
    tokens. ``capabilities`` are Ollama's words: completion, tools, thinking, vision, insert, embedding.
    """

    name: str
    digest: str
    size_bytes: int
    family: str
    parameter_size: str
    quantization_level: str
    context_length: int
    embedding_length: int
    modified_at: str
    parameter_count: int = 0
    capabilities: tuple[str, ...] = ("completion",)
    template: str = "{{ .Prompt }}"
    format: str = "gguf"


def version_reply() -> dict[str, Any]:
    """GET /api/version."""
    return {"version": OLLAMA_VERSION}


def tags_reply(card: ModelCard) -> dict[str, Any]:
    """GET /api/tags."""
    return {"models": [tags_entry(card)]}


def tags_entry(card: ModelCard) -> dict[str, Any]:
    """One entry of /api/tags."""
    return {
        "name": card.name,
        "model": card.name,
        "modified_at": card.modified_at,
        "size": card.size_bytes,
        "digest": card.digest,
        "details": _details(card),
        "capabilities": list(card.capabilities),
    }


def openai_entry(card: ModelCard, created: int) -> dict[str, Any]:
    """One entry of /v1/models; ``created`` is ``modified_at`` as Unix time."""
    return {"id": card.name, "object": "model", "created": created, "owned_by": "library"}


def ps_reply(card: ModelCard, expires_at: str) -> dict[str, Any]:
    """GET /api/ps for a loaded model; ``expires_at`` is RFC 3339. ``size_vram`` 0: it runs on the CPU."""
    entry = {
        "name": card.name,
        "model": card.name,
        "size": card.size_bytes,
        "digest": card.digest,
        "details": _details(card),
        "expires_at": expires_at,
        "size_vram": 0,
        "context_length": card.context_length,
    }
    return {"models": [entry]}


def show_reply(card: ModelCard) -> dict[str, Any]:
    """POST /api/show. The FROM line of ``modelfile`` names the weights, so that nodes can compare them."""
    modelfile = f'FROM blobs/sha256-{card.digest}\nTEMPLATE """{card.template}"""\n'
    return {
        "modelfile": modelfile,
        "parameters": "",
        "template": card.template,
        "details": _details(card),
        "model_info": {
            "general.architecture": card.family,
            "general.basename": card.name,
            "general.parameter_count": card.parameter_count,
            f"{card.family}.context_length": card.context_length,
            f"{card.family}.embedding_length": card.embedding_length,
        },
        "capabilities": list(card.capabilities),
        "modified_at": card.modified_at,
    }


def _details(card: ModelCard) -> dict[str, Any]:
    return {
        "parent_model": "",
        "format": card.format,
        "family": card.family,
        "families": [card.family],
        "parameter_size": card.parameter_size,
        "quantization_level": card.quantization_level,
        "context_length": card.context_length,
        "embedding_length": card.embedding_length,
    }
