"""A recorded run on other nodes or with another policy: the production scheduler on a virtual clock."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pairproxy.core.models import EngineId, ModelName, NodeId, Outcome, Rates
from pairproxy.core.policies import POLICIES
from pairproxy.core.rules import Rules
from pairproxy.core.simulator import simulate
from pairproxy.core.whatif.recording import (
    RecordedPlace,
    RecordedRates,
    Recording,
    blocks_of,
    reply_blocks_of,
)
from pairproxy.core.workload import SimEngine, SimNode, SimRequest, SimResult

MOST_ERROR = 0.15  # of the makespan: a model that is further off on what did happen is not to be believed
MOST_REQUESTS = 1000  # of a run: a minute of simulation
MOST_S = 86_400.0  # of what is simulated: a day of heartbeats of three nodes takes half a minute
MOST_TOKENS = 10_000_000  # of a prompt, and of a reply: ten times the largest window there is
MOST_BLOCKS = 4_000_000  # of all prompts: MOST_REQUESTS of a quarter of a million tokens, 100 MB here


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
    _check_duration(recording, places)
    requests = requests_of(recording)
    before = served(nodes_of(recording.places, recording.node), requests, recording.policy)
    after = served(nodes_of(places, recording.node), requests, policy)
    alone = _alone(requests, places, models)
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
    kept = nodes - changes.removed
    names = [*kept, *(recording.names[node] for node in kept if node in recording.names)]
    for new in changes.added:
        if new.name in names:
            raise ValueError(
                f"There is a node {new.name!r} already: two would have one name. Choose another."
            )
        names.append(new.name)
    if changes.policy is not None and changes.policy not in POLICIES:
        raise ValueError(f"There is no policy {changes.policy!r}. Use one of: {', '.join(POLICIES)}.")
    _check_speeds(recording, changes)
    _check_sizes(recording)
    for request in recording.requests:
        if not any(request.model in place.rates for place in recording.places):
            raise ValueError(f"The speed of {request.model} is not known any more, so it cannot be replayed.")


def _check_sizes(recording: Recording) -> None:
    """Of a file that is damaged; what a daemon tells of itself is sound."""
    for index, one in enumerate(recording.requests):
        are_before = all(
            other is None or 0 <= other < index for other in (one.after, one.shared_with, *one.joins)
        )
        are_times = all(0.0 <= seconds <= MOST_S for seconds in (one.arrived_s, one.think_s))
        are_sizes = all(0 <= tokens <= MOST_TOKENS for tokens in (one.prompt_tokens, one.output_tokens))
        if not (are_before and are_times and are_sizes and min(one.blocks, one.shared_blocks) >= 0):
            raise ValueError(
                f"The file is damaged: request {index} follows a later one, or has a time or a size that"
                " cannot be. Write it anew with `pairproxy report --json`."
            )
    if sum(one.blocks for one in recording.requests) > MOST_BLOCKS:
        raise ValueError("The run has prompts too long to be replayed: name a smaller one with --run.")


def _check_duration(recording: Recording, places: Sequence[RecordedPlace]) -> None:
    """Neither may one request take too long where it is slowest, nor all of them where each is fastest."""
    everywhere = [*recording.places, *places]
    longest_s = work_s = 0.0
    for one in recording.requests:
        times = [
            rates.load_s
            + one.prompt_tokens / rates.prefill_tokens_per_s
            + one.output_tokens / rates.decode_tokens_per_s
            for place in everywhere
            if (rates := place.rates.get(one.model)) is not None
        ]
        longest_s = max(longest_s, *times)
        work_s += min(times)
    if max(longest_s, work_s) > MOST_S:
        raise ValueError("That would take more than a day, which is not simulated. Use faster nodes.")


def _check_speeds(recording: Recording, changes: Changes) -> None:
    rates = [one for place in recording.places for one in place.rates.values()]
    rates += [new.rates for new in changes.added]
    slots = [*(place.slots for place in recording.places), *(new.slots for new in changes.added)]
    if not all(by > 0.0 for by in changes.faster.values()):
        raise ValueError("A node can be 2 or 0.5 times as fast, not 0 times: write NAME=2.")
    if not all(map(_is_speed, rates)) or any(count < 1 for count in slots):
        raise ValueError("A node needs one slot or more and rates above zero, as in box=4:2000:50.")


def _is_speed(rates: RecordedRates) -> bool:
    return min(rates.prefill_tokens_per_s, rates.decode_tokens_per_s) > 0.0 <= min(rates.beta, rates.load_s)


def _alone(
    requests: Sequence[SimRequest], places: Sequence[RecordedPlace], models: Sequence[str]
) -> dict[str, float]:
    """The makespan on each node that has all models."""
    found = {}
    for node in dict.fromkeys(place.node for place in places):
        own = [place for place in places if place.node == node]
        if all(any(model in place.rates for place in own) for model in models):
            asked = [replace(one, origin=NodeId(node)) for one in requests]
            found[node] = served(nodes_of(own, node), asked, Rules().policy).makespan_s
    return found


def served(nodes: Sequence[SimNode], requests: Sequence[SimRequest], policy: str, seed: int = 0) -> SimResult:
    """Every request is served however long it waits: makespans of less than all could not be compared."""
    known = policy if policy in POLICIES else Rules().policy
    rules = Rules(policy=known, queue_limit=MOST_REQUESTS, queue_timeout_s=len(requests) * MOST_S)
    result = simulate(nodes, requests, rules, seed)
    lost = sum(record.outcome is not Outcome.DONE for record in result.records)
    if lost:
        raise ValueError(f"{lost} of {len(requests)} requests would not be served with {known}. Change less.")
    return result


def _faster(place: RecordedPlace, by: float) -> RecordedPlace:
    rates = {
        model: RecordedRates(
            one.prefill_tokens_per_s * by, one.decode_tokens_per_s * by, one.beta, one.load_s / by
        )
        for model, one in place.rates.items()
    }
    return replace(place, rates=rates)


def nodes_of(places: Sequence[RecordedPlace], origin: str) -> list[SimNode]:
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
                place.is_loaded,
                cache_tokens=place.cache_tokens or None,
            )
        )
    return [SimNode(NodeId(node), tuple(own)) for node, own in engines.items()]


def requests_of(recording: Recording) -> list[SimRequest]:
    """The requests for the simulator, all at the origin. Raises ValueError for what cannot be."""
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
            joins=one.joins,
            think_s=one.think_s,
            blocks=blocks[index],
            reply_blocks=replies[index],
            run=recording.run,
            is_streaming=one.is_streaming,
        )
        for index, one in enumerate(recording.requests)
    ]
