"""When two models on two nodes are the same replica.

Names follow Ollama's rule: ``[host/][namespace/]model[:tag]`` with the defaults ``registry.ollama.ai``,
``library`` and ``latest``, compared without case. Identity is content: equal names with different
content are never mixed.
"""

from pairproxy.core.models import ModelName, Replica

_SCHEMES = ("https://", "http://")
_DEFAULT_HOST = "registry.ollama.ai/"
_DEFAULT_NAMESPACE = "library/"
_DEFAULT_TAG = "latest"


def canonical_name(text: str) -> ModelName:
    """Return the one spelling of a model's name: ``M`` and ``library/m:latest`` both give ``m:latest``."""
    name = text.strip().lower()
    for scheme in _SCHEMES:
        name = name.removeprefix(scheme)
    name = name.removeprefix(_DEFAULT_HOST).removeprefix(_DEFAULT_NAMESPACE)
    last_part = name.rpartition("/")[2]
    return ModelName(name if ":" in last_part or not name else f"{name}:{_DEFAULT_TAG}")


def is_same(one: Replica, other: Replica) -> bool:
    """Whether a request for ``one`` may run on ``other``."""
    return one.model == other.model and one.identity == other.identity
