"""A recorded run on other nodes or with another policy: the production scheduler on a virtual clock."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pairproxy.core.knowledge import Rules
from pairproxy.core.models import EngineId, ModelName, NodeId, Rates
from pairproxy.core.policies import POLICIES
from pairproxy.core.simulator import simulate
from pairproxy.core.whatif.recording import (
    RecordedPlace,
    RecordedRates,
    Recording,
    blocks_of,
    reply_blocks_of,
)
from pairproxy.core.workload import SimEngine, SimNode, SimRequest

MOST_ERROR = 0.15  # of the makespan: a model that is further off on what did happen is not to be believed
MOST_REQUESTS = 1000  # of a run: a minute of simulation


@dataclass(frozen=True, slots=True)
class NewNode:
    """A node that was not there: every model of the run, at these rates."""

    name: str
    slots: int
    rates: RecordedRates


@dataclass(frozen=True, slots=True)
class Changes:
    """What is to be otherwise. Nodes by their id; ``faster``: by how many times."""

    added: tuple[NewNode, ...] = ()
    removed: frozenset[str] = frozenset()
    faster: Mapping[str, float] = field(default_factory=dict)
    policy: str | None = None


@dataclass(frozen=True, slots=True)
class Replayed:
    """Makespans in seconds. All but ``recorded_s`` are simulated."""

    requests: int
    left_out: int
    recorded_s: float
    as_recorded_s: float  # the same nodes and policy, simulated: shows how far the model is off
    changed_s: float
    best_alone_s: float | None  # of the changed nodes, the one that would do it soonest alone
    best_alone: str | None
    per_node: dict[str, int]  # requests on the changed nodes
    hit_rate: float  # of the prompts' tokens there
    policy: str

    @property
    def model_error(self) -> float:
        """Part of the recorded makespan by which the simulation of it is off."""
        return abs(self.as_recorded_s - self.recorded_s) / self.recorded_s

    @property
    def is_credible(self) -> bool:
        """Whether the model holds for the run as it happened."""
        return self.model_error <= MOST_ERROR

    @property
    def speedup(self) -> float:
        """Against the run as recorded; both simulated, so that what the model is off cancels out."""
        return self.as_recorded_s / self.changed_s

    @property
    def speedup_best(self) -> float | None:
        """Against the best of the changed nodes alone."""
        return None if self.best_alone_s is None else self.best_alone_s / self.changed_s


def replay(recording: Recording, changes: Changes) -> Replayed:
    """Simulate a run as it was recorded, and as it would have been.

    Raises ValueError, with a sentence for a person, for a run that cannot be replayed, a node that is not in
    it or a name that is taken.
    """
    _check(recording, changes)
    models = sorted({one.model for one in recording.requests})
    places = [
        _faster(place, changes.faster.get(place.node, 1.0))
        for place in recording.places
        if place.node not in changes.removed
    ]
    places += [
        RecordedPlace(new.name, "new", "paced", new.slots, dict.fromkeys(models, new.rates))
        for new in changes.added
    ]
    lacking = [model for model in models if not any(model in place.rates for place in places)]
    if lacking:
        raise ValueError(f"No node would be left that has {lacking[0]}. Remove fewer, or add one.")
    policy = changes.policy or recording.policy
    before = simulate(
        _nodes(recording.places, recording.node), _requests(recording), _rules(recording.policy)
    )
    after = simulate(_nodes(places, recording.node), _requests(recording), _rules(policy))
    alone = _alone(recording, places, models)
    return Replayed(
        requests=len(recording.requests),
        left_out=recording.left_out,
        recorded_s=recording.makespan_s,
        as_recorded_s=before.makespan_s,
        changed_s=after.makespan_s,
        best_alone_s=min(alone.values(), default=None),
        best_alone=min(alone, key=alone.__getitem__, default=None),
        per_node={place.node: after.per_node[NodeId(place.node)] for place in places},
        hit_rate=after.hit_rate,
        policy=policy,
    )


def _check(recording: Recording, changes: Changes) -> None:
    nodes = {place.node for place in recording.places}
    if not recording.requests or recording.makespan_s <= 0.0:
        raise ValueError(
            "The run holds no request that was served and counted its tokens: nothing to replay."
        )
    if len(recording.requests) > MOST_REQUESTS:
        raise ValueError(f"The run has more than {MOST_REQUESTS} requests: name a smaller one with --run.")
    for node in (*changes.removed, *changes.faster):
        if node not in nodes:
            raise ValueError(f"The run knows no node {node!r}. `pairproxy report` lists those it knows.")
    names = [new.name for new in changes.added]
    if len({*names, *nodes}) < len(names) + len(nodes):
        raise ValueError("Two nodes have one name. Choose another one.")
    if changes.policy is not None and changes.policy not in POLICIES:
        raise ValueError(f"There is no policy {changes.policy!r}. Use one of: {', '.join(POLICIES)}.")
    _check_speeds(recording, changes)
    for index, request in enumerate(recording.requests):
        if request.after is not None and not 0 <= request.after < index:
            raise ValueError("The file is damaged: a request follows one that comes later. Record it anew.")
        if not any(request.model in place.rates for place in recording.places):
            raise ValueError(f"The speed of {request.model} is not known any more, so it cannot be replayed.")


def _check_speeds(recording: Recording, changes: Changes) -> None:
    rates = [one for place in recording.places for one in place.rates.values()]
    rates += [new.rates for new in changes.added]
    slots = [*(place.slots for place in recording.places), *(new.slots for new in changes.added)]
    are_speeds = all(map(_is_speed, rates)) and all(by > 0.0 for by in changes.faster.values())
    if not are_speeds or any(count < 1 for count in slots):
        raise ValueError("A node needs one slot or more and rates above zero, as in box=4:2000:50.")


def _is_speed(rates: RecordedRates) -> bool:
    return min(rates.prefill_tokens_per_s, rates.decode_tokens_per_s) > 0.0 <= min(rates.beta, rates.load_s)


def _alone(recording: Recording, places: Sequence[RecordedPlace], models: Sequence[str]) -> dict[str, float]:
    """The makespan on each node that has all models."""
    found = {}
    for node in dict.fromkeys(place.node for place in places):
        own = [place for place in places if place.node == node]
        if all(any(model in place.rates for place in own) for model in models):
            requests = [replace(one, origin=NodeId(node)) for one in _requests(recording)]
            found[node] = simulate(_nodes(own, node), requests).makespan_s
    return found


def _faster(place: RecordedPlace, by: float) -> RecordedPlace:
    rates = {
        model: RecordedRates(
            one.prefill_tokens_per_s * by, one.decode_tokens_per_s * by, one.beta, one.load_s / by
        )
        for model, one in place.rates.items()
    }
    return replace(place, rates=rates)


def _rules(policy: str) -> Rules:
    return Rules(policy=policy if policy in POLICIES else Rules().policy, queue_limit=MOST_REQUESTS)


def _nodes(places: Sequence[RecordedPlace], origin: str) -> list[SimNode]:
    """The nodes of these places; the origin is there even if it has none."""
    engines: dict[str, list[SimEngine]] = {origin: []}
    for place in places:
        rates = {
            ModelName(model): Rates(one.prefill_tokens_per_s, one.decode_tokens_per_s, one.beta, one.load_s)
            for model, one in place.rates.items()
        }
        engines.setdefault(place.node, []).append(
            SimEngine(
                EngineId(place.engine),
                place.slots,
                rates,
                place.kind,
                cache_tokens=place.cache_tokens or None,
            )
        )
    return [SimNode(NodeId(node), tuple(own)) for node, own in engines.items()]


def _requests(recording: Recording) -> list[SimRequest]:
    blocks = blocks_of(recording.requests)
    replies = reply_blocks_of(recording.requests, blocks)
    return [
        SimRequest(
            at=0.0 if one.after is not None else one.arrived_s,
            origin=NodeId(recording.node),
            prompt_tokens=max(one.prompt_tokens, 1),
            output_tokens=max(one.output_tokens, 1),
            max_output_tokens=one.max_output_tokens,
            client=f"client {one.client}",
            model=ModelName(one.model),
            after=one.after,
            think_s=one.think_s,
            blocks=blocks[index],
            reply_blocks=replies[index],
            run=recording.run,
            is_streaming=one.is_streaming,
        )
        for index, one in enumerate(recording.requests)
    ]
