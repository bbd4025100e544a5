"""When two models on two nodes are the same replica.

Names follow Ollama's rule: ``[host/][namespace/]model[:tag]`` with the defaults ``registry.ollama.ai``,
``library`` and ``latest``, compared without case. Identity is content: equal names with different
content are never mixed, unless a person mapped one to the other (engines.aliases).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase

from pairproxy.core.models import ModelName, Replica

_SCHEMES = ("https://", "http://")
_DEFAULT_HOST = "registry.ollama.ai"
_DEFAULT_NAMESPACE = "library"
_DEFAULT_TAG = "latest"

CLOUD = "cloud"
LOCAL = "local"


def canonical_name(text: str) -> ModelName:
    """Return the one spelling of a model's name: ``M`` and ``library/m:latest`` both give ``m:latest``.

    What is no name by Ollama's rule (more than three parts, characters it forbids) is kept in lower case:
    servers of OpenAI's API use such names.
    """
    name = text.strip().lower()
    while name.startswith(_SCHEMES):
        name = name.partition("://")[2].strip()
    if not name:
        return ModelName("")
    path, tag = _split_tag(name)
    parts = path.split("/")
    if len(parts) == 3 and parts[0] == _DEFAULT_HOST:
        parts = parts[1:]
    if len(parts) == 2 and parts[0] == _DEFAULT_NAMESPACE:
        parts = parts[1:]
    return ModelName(f"{'/'.join(parts)}:{_DEFAULT_TAG if tag is None else tag}")


def source_of(text: str) -> str | None:
    """Which source a name insists on: CLOUD (``m:cloud``, ``m:8b-cloud``), LOCAL (``m:local``) or None.

    A name that insists on both is refused by Ollama; it counts as CLOUD here, for it stays in any case.
    """
    path, tag = _split_tag(text.strip().lower())
    if tag is None:
        return None
    if tag == LOCAL:
        return CLOUD if source_of(path) == CLOUD else LOCAL
    return CLOUD if tag == CLOUD or tag.endswith(f"-{CLOUD}") or source_of(path) == CLOUD else source_of(path)


def is_same(one: Replica, other: Replica, *, exactly: bool = False) -> bool:
    """Whether a request for ``one`` may run on ``other``.

    By name and content, or by name and all that is known of the content: nodes of different age hash the
    same content differently. A person's alias vouches for it. ``exactly``: only equal content counts, for
    embeddings, which are compared with each other.
    """
    if one.model != other.model:
        return False
    if one.identity == other.identity:
        return True
    if exactly:
        return False
    return is_alias(one) or is_alias(other) or (one.facts != "" and one.facts == other.facts)


def is_alias(replica: Replica) -> bool:
    """Whether its name is one that a person gave it."""
    return replica.called is not None


def with_aliases(
    listed: tuple[tuple[Replica, bool], ...], aliases: Mapping[str, str]
) -> tuple[tuple[Replica, bool], ...]:
    """An engine's replicas (with whether each is loaded) and those that a person named.

    ``aliases`` is "name here" -> "name on this engine". A name that the engine itself lists means what it
    means there; an alias of a model that it does not list is none.
    """
    own = {replica.model: (replica, is_loaded) for replica, is_loaded in listed}
    added = {
        model: (replace(own[target][0], model=model, called=name_there), own[target][1])
        for name_here, name_there in aliases.items()
        if (model := canonical_name(name_here)) and model not in own
        if (target := canonical_name(name_there)) in own
    }
    return (*listed, *added.values())


def matches(model: ModelName, patterns: Iterable[str]) -> bool:
    """Whether any pattern stands for the model; ``*`` and ``?`` as in file names, ``m`` is ``m:latest``."""
    return any(
        fnmatchcase(model, pattern.strip().lower()) or fnmatchcase(model, canonical_name(pattern))
        for pattern in patterns
    )


def differing(here: Iterable[Replica], there: Iterable[Replica]) -> tuple[ModelName, ...]:
    """The names that two nodes both have, but none of whose replicas here is the same as one there."""
    ours: dict[ModelName, list[Replica]] = {}
    for replica in here:
        ours.setdefault(replica.model, []).append(replica)
    shared: dict[ModelName, bool] = {}
    for replica in there:
        if mine := ours.get(replica.model):
            shared[replica.model] = shared.get(replica.model, False) or any(
                is_same(one, replica) for one in mine
            )
    return tuple(sorted(model for model, is_shared in shared.items() if not is_shared))


def _split_tag(name: str) -> tuple[str, str | None]:
    """The name without its tag, and the tag: what follows the last colon after the last slash."""
    colon = name.rfind(":")
    if colon <= name.rfind("/"):
        return name, None
    return name[:colon], name[colon + 1 :]
