"""What a person should know of one row of the matrix of models: what differs, what it costs, what helps.

Only what keeps a request from a node is a difference (core.replicas, core.gates); speeds are priced.
"""

import json
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pairproxy.admin.holdings import Held, KnownNode
from pairproxy.api.models import CellState
from pairproxy.core.dialects.routes import engine_kinds
from pairproxy.core.models import ModelName, NodeId
from pairproxy.core.replicas import is_alias

MOST_NAMED = 4  # nodes in one sentence; the cells tell of all
DIGEST_CHARACTERS = 12  # of a content's name: what `ollama list` shows
_OLLAMA_PATH = "/api/chat"
_ALIASES = "engines.aliases (docs/mixed-engines.md)"

_ENGINES = {
    "ollama": "Ollama",
    "lmstudio": "LM Studio",
    "llamacpp": "llama-server",
    "openai": "a server of OpenAI's API",
    "embedded": "the embedded engine",
    "paced": "the paced engine",
}
_GETS = {  # how one gets on another node what an engine of this kind holds here; {} is the model's name
    "ollama": "`ollama pull {}`",
    "lmstudio": "`lms get {}`",
    "llamacpp": "start llama-server with the same file",
    "openai": "serve the same model with the same settings",
    "embedded": "let the same version of pairproxy run its embedded engine",
    "paced": "name the same engines.paced.model",
}
_WIDENS = {  # how one gives an engine a window; {} is its tokens
    "ollama": "start Ollama with OLLAMA_CONTEXT_LENGTH={}",
    "lmstudio": "load it in LM Studio with a context length of {}",
    "llamacpp": "start llama-server with -c {} for each of its slots",
    "openai": "start the server with a window of {} (vLLM: --max-model-len)",
    "embedded": "set engines.context_tokens = {}",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One model. ``held``: what stands for it on each node that has it.

    ``serving``: the nodes among which its requests are balanced; ``barred``: peers that may not use it here.
    """

    model: ModelName
    nodes: Mapping[NodeId, KnownNode]  # this one first
    held: Mapping[NodeId, Held]
    states: Mapping[str, CellState]
    serving: tuple[NodeId, ...]
    is_local_only: bool
    barred: tuple[KnownNode, ...]

    @property
    def own(self) -> NodeId:
        """This node."""
        return next(iter(self.nodes))

    def of(self, *states: CellState) -> list[NodeId]:
        """The nodes whose cell is in one of these states, in the order of the matrix."""
        return [node for node in self.nodes if self.states[node] in states]

    def named(self, nodes: Iterable[NodeId]) -> str:
        """Nodes in a sentence."""
        return listed([self.nodes[node].name for node in nodes])


class Notes(NamedTuple):
    """See api.models.ModelRow."""

    differences: tuple[str, ...]
    costs: str
    fix: str


def notes(row: Row) -> Notes:
    """All there is to say of a row."""
    found = (*_contents(row), *_windows(row), *_abilities(row), *_kinds(row), *_people(row))
    return Notes(found, _costs(row), _fix(row))


def listed(names: list[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``; of many the first, and how many more."""
    if len(names) > MOST_NAMED:
        names = [*names[:MOST_NAMED], f"{len(names) - MOST_NAMED} more"]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


# --- differences ----------------------------------------------------------------------------------------


def _contents(row: Row) -> Iterator[str]:
    """Same name, other content; and content that cannot be compared."""
    same = next((row.held[node] for node in row.of("same")), None)
    groups: dict[str, list[NodeId]] = defaultdict(list)
    for node in row.of("different"):
        groups[row.held[node].replica.identity].append(node)
    for nodes in groups.values():
        has = "has" if len(nodes) == 1 else "have"
        yield (
            f"{row.named(nodes)} {has} other content under this name"
            f"{_how_other(row.held[nodes[0]], same, row)}. It is never mixed."
        )
    for node in row.of("unknown"):
        kind = _ENGINES.get(row.held[node].kind, row.held[node].kind)
        yield f"{row.nodes[node].name}: {kind} does not say what its content is, so it counts as other."
    hashes = {row.held[node].replica.identity for node in row.of("same")}
    if len(hashes) > 1 and any("embedding" in _can(row.held[node]) for node in row.of("same")):
        yield "The same content has different hashes, so embeddings stay on nodes with the same hash."


def _how_other(other: Held, same: Held | None, row: Row) -> str:
    if same is None:
        return ""
    here = row.nodes[same.place.node].name
    if other.quantization and same.quantization and other.quantization != same.quantization:
        return f" ({other.quantization}; {here} has {same.quantization})"
    names = f"{_short(other.replica.identity)}; {here} has {_short(same.replica.identity)}"
    if other.quantization and other.quantization == same.quantization:
        names += f"; both {same.quantization}"
    return f" ({names})"


def _short(identity: str) -> str:
    kind, _, name = identity.rpartition(":")
    return name[:DIGEST_CHARACTERS] if kind == "sha256" else identity[: 4 * DIGEST_CHARACTERS]


def _windows(row: Row) -> Iterator[str]:
    narrow = _narrow(row)
    for node, tokens in narrow.items():
        yield f"{row.nodes[node].name} has a window of {tokens:,} tokens; the widest has {_widest(row):,}."


def _narrow(row: Row) -> dict[NodeId, int]:
    """Serving nodes with a smaller window than another, as far as they tell."""
    known = {node: row.held[node].replica.context_tokens for node in row.serving}
    return {node: tokens for node, tokens in known.items() if tokens is not None and tokens < _widest(row)}


def _widest(row: Row) -> int:
    return max((row.held[node].replica.context_tokens or 0 for node in row.serving), default=0)


def _abilities(row: Row) -> Iterator[str]:
    """Tools, images, thinking: what one node says it can and another does not."""
    told = {node: _can(row.held[node]) for node in row.of("same") if _says(row.held[node])}
    every = frozenset().union(*told.values()) - {"embedding"}
    for node, can in told.items():
        if lacking := sorted(every - can):
            yield f"{row.nodes[node].name} does not offer {listed(lacking)}: such requests go elsewhere."


def _says(held: Held) -> bool:
    return held.replica.capabilities is not None


def _can(held: Held) -> frozenset[str]:
    return held.replica.capabilities or frozenset()


def _kinds(row: Row) -> Iterator[str]:
    """Engines that do not answer Ollama's API; and names that a person mapped."""
    same = row.of("same")
    speaking = [node for node in same if row.held[node].kind in engine_kinds(_OLLAMA_PATH)]
    others = [node for node in same if node not in speaking]
    if speaking and others:
        yield f"{row.named(others)}: only requests of OpenAI's API can run there, none of Ollama's /api."
    for node in same:
        if is_alias(row.held[node].replica):
            yield f"{row.nodes[node].name} has it by an alias, for {row.held[node].replica.called}."


def _people(row: Row) -> Iterator[str]:
    """What somebody decided."""
    if row.is_local_only and len(row.nodes) > 1:
        yield "Its requests stay on this machine: routing.local_only, or the policy, says so."
    if row.barred and row.states[row.own] != "missing":
        names = listed([node.name for node in row.barred])
        yield f"{names} may not use it on this machine (`pairproxy rights`)."
    draining = [node for node in row.of("same") if row.nodes[node].is_draining]
    if draining:
        yield f"{row.named(draining)}: takes no new work now."


# --- what it costs, and what helps ----------------------------------------------------------------------


def _costs(row: Row) -> str:
    if not row.serving:
        return "Nobody can serve it now."
    if len(row.serving) == 1:
        (only,) = row.serving
        where = "this machine" if only == row.own else row.nodes[only].name
        return f"No balancing possible: every request for it runs on {where}."
    costs = []
    if others := row.of("different", "unknown"):
        slots = sum(row.held[node].slots for node in others)
        are = "slot of {} is" if slots == 1 else "slots of {} are"
        costs.append(f"{slots} {are.format(row.named(others))} not used for requests that arrive here.")
    if narrow := _narrow(row):
        costs.append(f"Longer requests cannot run on {row.named(narrow)}.")
    return " ".join(costs)


def _fix(row: Row) -> str:
    if not row.serving and row.is_local_only:
        return "Take it out of routing.local_only, then `pairproxy reload`."
    fixes = [*_fix_contents(row)]
    if len(row.serving) <= 1 and not row.is_local_only:
        fixes += [*_fix_missing(row), *_fix_away(row)]
        if len(row.nodes) == 1 and row.serving:
            fixes.append("Pair another machine: `pairproxy pair` here, `pairproxy join CODE` there.")
    for node in _narrow(row):
        if (how := _WIDENS.get(row.held[node].kind)) is not None:
            fixes.append(f"On {row.nodes[node].name}: {how.format(_widest(row))}.")
    return " ".join(fixes)


def _fix_contents(row: Row) -> Iterator[str]:
    others, kinds = row.of("different"), {row.held[node].kind for node in row.of("same", "different")}
    model = shlex.quote(row.model)
    if others and kinds == {"ollama"}:
        yield (
            f"On {row.named(others)}: `ollama pull {model}`; if they still differ, "
            f"then on {row.named(row.of('same'))} too."
        )
    elif others and kinds == {"lmstudio"}:
        level = next((row.held[node].quantization for node in row.of("same")), "")
        yield f"On {row.named(others)}: `lms get {model}{'@' + level.lower() if level else ''}`."
    elif others:
        yield f"Serve the same file on {row.named([*row.of('same'), *others])}."
    if others or row.of("unknown"):
        yield f"Or, if you know that they answer alike, give all one new name with {_ALIASES}."


def _fix_missing(row: Row) -> Iterator[str]:
    source = next((row.held[node].kind for node in row.serving), None)
    if source is None:
        return
    ways: dict[str, list[NodeId]] = defaultdict(list)
    for node in row.of("missing"):
        kinds = {engine.kind for engine in row.nodes[node].engines}
        if not kinds:
            way = "start an engine there: none answers"
        elif source in kinds:
            way = _get(row, source, node)
        else:
            way = (
                "if an engine there has the same under another name, "
                f'`aliases = {{ {json.dumps(row.model)} = "its name there" }}` in its [[engines]]'
            )
        ways[way].append(node)
    for way, nodes in ways.items():
        yield f"On {row.named(nodes)}: {way}."


def _get(row: Row, kind: str, node: NodeId) -> str:
    """How a node gets the model: by copying it where the two are surely paired, else from where it came."""
    model = shlex.quote(row.model)
    pulled = _GETS.get(kind, "").format(model)
    holder = next(one for one in row.serving if row.held[one].kind == kind)
    if kind != "ollama" or row.own not in (node, holder):
        return pulled
    return f"`pairproxy replicate {model} --from {shlex.quote(row.nodes[holder].name)}`, or {pulled}"


def _fix_away(row: Row) -> Iterator[str]:
    """Who is away and had it."""
    away = [node for node in row.of("away") if node in row.held]
    if row.own in away:
        yield f"Start {row.held[row.own].place.engine} on this machine: it does not answer."
    if peers := [node for node in away if node != row.own]:
        yield f"{row.named(peers)}: away; start pairproxy or its engine there."
