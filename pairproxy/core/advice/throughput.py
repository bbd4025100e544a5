"""First branch of the tree: much waits, and each reply alone would be fine. More slots, nodes, models."""

from collections.abc import Iterator

from pairproxy.core.accounting.verdict_nodes import LET_THEM
from pairproxy.core.advice.evidence import Conclusion, Elsewhere, Evidence, NodeUse
from pairproxy.core.advice.trials import Trials
from pairproxy.core.advice.words import counted, listed, part, seconds

MUCH_QUEUE = 0.2  # of a request's time: without a simulation, that much is worth a try
LEAST_QUEUE = 0.05  # of a request's time: who waits less would notice nothing of a slot more
TIMES = (2, 4)  # as many slots as now: what is known of company says little beyond
SEEN_COMPANY = 1.5  # requests at once, on average: with fewer nobody has measured how company slows them
NONE_MISSING = ", so none was missing"
ASSUMED = " How requests at once slow each other here is assumed, for it was not seen."
SET_SLOTS = (
    "Set slots of [[engines]] in config.toml (Ollama: OLLAMA_NUM_PARALLEL as well) if its memory holds as "
    "many contexts."
)
MOST_ELSEWHERE = 3  # nodes that could take none that are tried, the one with most slots first
LEAST_BUSY = 0.2  # of a node's slot-seconds: who works less may be spared


def more_slots(evidence: Evidence, trials: Trials) -> Iterator[Conclusion]:
    """Engines take as many requests at once as they have slots; what they slow each other is known."""
    timing = evidence.timing
    waits = timing.queue_s / max(timing.latency_s, 1e-9)
    numbers = {"queue_s": timing.queue_s, "latency_s": timing.latency_s, "slots": float(evidence.slots)}
    waited = f"a request waited {seconds(timing.queue_s)} of its {seconds(timing.latency_s)} for a slot"
    base, tried = trials.base, []
    if waits >= LEAST_QUEUE or len(evidence.recording.places) > 1:  # where one is full, a slower one is taken
        tried = [(times, trial) for times in TIMES if (trial := trials.slots(times)) is not None]
    if base is None or not tried:
        why = ". What more would give is not simulated" if waits >= LEAST_QUEUE else NONE_MISSING
        yield Conclusion("more-slots", waits >= MUCH_QUEUE, f"More slots: {waited}{why}.", numbers)
        return
    times, best = max(tried, key=lambda one: (round(one[1].gain(base), 2), -one[0]))
    numbers["slots_tried"] = float(evidence.slots * times)
    told = f"{times} times the slots on each engine ({evidence.slots * times} instead of {evidence.slots})"
    if best.gains(base):
        assumed = "" if (timing.company or 0.0) >= SEEN_COMPANY else ASSUMED
        full = "" if waits >= LEAST_QUEUE else ", but the faster engines were full"
        sentence = f"{waited}{full}. With {told} {best.effect(base)}.{assumed} {SET_SLOTS}"
    elif waits >= LEAST_QUEUE:
        sentence = f"{waited}, but with {told} {best.effect(base)}: requests at once slow each other."
    else:
        sentence = f"{waited}{NONE_MISSING}."
    yield best.concluded("more-slots", base, f"More slots: {sentence}", numbers)


def more_nodes(evidence: Evidence, trials: Trials) -> Iterator[Conclusion]:
    """Another machine like the best there is."""
    like, base = fastest(evidence), trials.base
    trial = None if like is None else trials.node_more(like.node)
    if like is None or base is None or trial is None or any(not one.lacks for one in evidence.elsewhere):
        return  # what keeps requests from a node that has their model keeps them from one more
    numbers = {"nodes": float(len(evidence.nodes)), "requests": float(evidence.requests)}
    told = f"More nodes: with one more machine like {like.name} {trial.effect(base)}"
    then = ". Pair one with `pairproxy pair`." if trial.gains(base) else f"{_why_not(evidence)}."
    yield trial.concluded("more-nodes", base, told + then, numbers)


def idle_nodes(evidence: Evidence, trials: Trials) -> Iterator[Conclusion]:
    """Nodes that are paired and cannot help, for they lack the model or may not; and those that hardly do."""
    like, base, let_them = fastest(evidence), trials.base, LET_THEM
    for one in sorted(evidence.elsewhere, key=lambda one: (-one.slots, one.name))[:MOST_ELSEWHERE]:
        trial = trials.models_at(one, like.node) if like is not None else None
        numbers = {"idle_slots": float(one.slots)}
        told = f"Idle nodes: {one.name} {_why_idle(one)}"
        if base is None or trial is None or like is None:
            told += (
                ". Fetch it there, and it takes part of the work." if one.lacks else f". {let_them}".rstrip()
            )
            yield Conclusion("idle-nodes", True, told, numbers)
            continue
        if one.times is not None:
            numbers["times_as_fast"] = one.times
        told += f". With it, {_speed(one, like)}, {trial.effect(base)}."
        if trial.gains(base) and not one.lacks:
            told += f" {let_them}".rstrip()
            let_them = ""  # told once
        elif trial.gains(base):
            told += f" Fetch {listed([*one.lacks])} there; `pairproxy models` shows when both are the same."
        yield trial.concluded("idle-nodes", base, told, numbers)
    yield from _alone(evidence, trials)
    yield from _spared(evidence, trials)


def _alone(evidence: Evidence, trials: Trials) -> Iterator[Conclusion]:
    """A model of the run that one node has, of several that serve the run: what if the others had it."""
    asked, base = {one.model for one in evidence.recording.requests}, trials.base
    for model in sorted(asked) if base is not None else ():
        holders = {place.node for place in evidence.recording.places if model in place.rates}
        others = [one for one in evidence.nodes if one.node not in holders]
        trial = trials.everywhere(model) if len(holders) == 1 and others else None
        if base is None or trial is None:
            continue
        where = listed([one.name for one in others])
        told = f"Idle nodes: {where} {'lacks' if len(others) == 1 else 'lack'} {model}, which one node has."
        told += f" With it, as fast for its kind as with what is there, {trial.effect(base)}."
        if trial.gains(base):
            told += f" Fetch {model} there; `pairproxy models` shows when both are the same."
        yield trial.concluded("idle-nodes", base, told, {"nodes_without": float(len(others))})


def _why_idle(one: Elsewhere) -> str:
    if one.lacks:
        return f"is paired and lacks {listed([*one.lacks])}"
    return "has a model of these requests, and none of them could go there"


def _speed(one: Elsewhere, like: NodeUse) -> str:
    slots = counted(one.slots, "slot")
    if one.times is None or round(one.times, 1) == 1.0:
        measured = " (not measured there)" if one.times is None else ""
        return f"{slots} as fast as those of {like.name}{measured}"
    return f"{slots} {one.times:.2g} times as fast as those of {like.name}"


def _spared(evidence: Evidence, trials: Trials) -> Iterator[Conclusion]:
    """Everything may be fine and still cost too much: a machine that is on for nothing."""
    own, base = evidence.recording.node, trials.base
    others = [one for one in evidence.nodes if one.node != own and one.busy < LEAST_BUSY]
    if base is None or not others:
        return
    least = min(others, key=lambda one: one.busy)
    trial = trials.node_less(least.node)
    if trial is None or base.gains(trial):
        return
    numbers = {"busy_part": least.busy, "node_requests": float(least.requests)}
    told = f"Idle nodes: {least.name} worked {part(least.busy)} of its slots' time; without it"
    yield trial.concluded("idle-nodes", base, f"{told} {trial.effect(base)}: it can be spared.", numbers)


def fastest(evidence: Evidence) -> NodeUse | None:
    """Of the nodes with most of the run's models, the one whose engines write most with all slots in use."""
    asked = {one.model for one in evidence.recording.requests}
    models: dict[str, set[str]] = {}
    speeds: dict[str, float] = {}
    for place in evidence.recording.places:
        models.setdefault(place.node, set()).update(asked.intersection(place.rates))
        for rates in place.rates.values():
            share = 1.0 / (1.0 + rates.beta * (place.slots - 1))
            full = rates.decode_tokens_per_s * max(1.0, place.slots * share)
            speeds[place.node] = max(speeds.get(place.node, 0.0), full)
    known = [one for one in evidence.nodes if one.node in speeds]
    return max(known, key=lambda one: (len(models[one.node]), speeds[one.node]), default=None)


def _why_not(evidence: Evidence) -> str:
    if evidence.requests == 1:
        return ": one request runs on one machine"
    afters = [one.after for one in evidence.recording.requests[1:]]
    if None not in afters and len(set(afters)) == len(afters):
        return ": each request waits for the reply to the one before"
    if evidence.slots >= evidence.requests:
        return ": there is a slot for every request"
    return ""
