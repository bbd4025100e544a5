"""The first branch of the tree: much waits, and each reply alone would be fine. More slots, nodes, models."""

from collections.abc import Iterator

from pairproxy.core.advice.evidence import Conclusion, Evidence, NodeUse
from pairproxy.core.advice.trials import Trial, Trials
from pairproxy.core.advice.words import change, counted, listed, part, seconds

HALF = 0.5  # of a request's time in the queue: without a simulation, that much is worth a try
LEAST_QUEUE = 0.05  # of a request's time: who waits less would notice nothing of a slot more
MOST_TIMES = 4  # as many slots as now: what was measured of company says little beyond
MOST_ELSEWHERE = 3  # nodes without the model that are tried, the one with most slots first
LEAST_BUSY = 0.2  # of a node's slot-seconds: who works less may be spared


def more_slots(evidence: Evidence, trials: Trials) -> Iterator[Conclusion]:
    """Engines take as many requests at once as they have slots; what they slow each other is measured."""
    timing = evidence.timing
    waits = timing.queue_s / max(timing.latency_s, 1e-9)
    numbers = {"queue_s": timing.queue_s, "latency_s": timing.latency_s, "slots": float(evidence.slots)}
    waited = f"a request waited {seconds(timing.queue_s)} of its {seconds(timing.latency_s)} for a slot"
    if waits < LEAST_QUEUE:
        yield Conclusion("more-slots", False, f"More slots: {waited}, so none was missing.", numbers)
        return
    tried = [(times, trial) for times in (2, MOST_TIMES) if (trial := trials.slots(times)) is not None]
    base = trials.base
    if base is None or not tried:
        told = f"More slots: {waited}. What more would give is not simulated."
        yield Conclusion("more-slots", waits >= HALF, told, numbers)
        return
    times, best = max(tried, key=lambda one: (round(one[1].gain(base), 2), -one[0]))
    numbers |= _numbers(base, best) | {"slots_tried": float(evidence.slots * times)}
    gain_s = base.makespan_s - best.makespan_s
    if best.gains(base):
        sentence = (
            f"More slots: {waited}. {times} times the slots ({evidence.slots * times} instead of "
            f"{evidence.slots}) would end the run in {change(base.makespan_s, best.makespan_s)}. "
            "Set slots of the engine in config.toml (Ollama: OLLAMA_NUM_PARALLEL too) if its memory holds "
            "as many contexts."
        )
    else:
        sentence = (
            f"More slots: {waited}, but {times} times the slots would end the run in "
            f"{change(base.makespan_s, best.makespan_s)}: requests at once slow each other."
        )
    yield Conclusion("more-slots", best.gains(base), sentence, numbers, gain_s)


def more_nodes(evidence: Evidence, trials: Trials) -> Iterator[Conclusion]:
    """Another machine like the best there is."""
    like = fastest(evidence)
    if like is None:
        return
    numbers = {"nodes": float(len(evidence.nodes)), "requests": float(evidence.requests)}
    trial = trials.node_more(like.node)
    if trials.base is None or trial is None:
        return
    numbers |= _numbers(trials.base, trial)
    told = f"One more machine like {like.name} would end the run in "
    told += change(trials.base.makespan_s, trial.makespan_s)
    helps = trial.gains(trials.base)
    then = " Pair one with `pairproxy pair`." if helps else _why_not(evidence)
    gain_s = trials.base.makespan_s - trial.makespan_s
    yield Conclusion("more-nodes", helps, f"More nodes: {told}.{then}", numbers, gain_s)


def idle_nodes(evidence: Evidence, trials: Trials) -> Iterator[Conclusion]:
    """Nodes that are paired and cannot help, for they lack the model; and those that hardly do."""
    like = fastest(evidence)
    idle = sorted(evidence.elsewhere, key=lambda one: (-one.slots, one.name))
    for one in idle[:MOST_ELSEWHERE]:
        trial = trials.models_at(one, like.node) if like is not None else None
        lacks = listed([*one.lacks])
        told = f"Idle nodes: {one.name} is paired, has {counted(one.slots, 'slot')} and lacks {lacks}"
        numbers = {"idle_slots": float(one.slots)}
        if trials.base is None or trial is None or like is None:
            yield Conclusion(
                "idle-nodes", True, f"{told}. Fetch it there, and it takes part of the work.", numbers
            )
            continue
        speed = f"as fast as {like.name}, for it is not measured there"
        if one.times is not None:
            speed, numbers["times_as_fast"] = f"{one.times:.2g} times as fast as {like.name}", one.times
        numbers |= _numbers(trials.base, trial)
        helps = trial.gains(trials.base)
        told += f". With it ({speed}) the run would end in "
        told += change(trials.base.makespan_s, trial.makespan_s) + "."
        then = f" Fetch {lacks} there; `pairproxy models` shows when both are the same." if helps else ""
        gain_s = trials.base.makespan_s - trial.makespan_s
        yield Conclusion("idle-nodes", helps, told + then, numbers, gain_s)
    yield from _spared(evidence, trials)


def _spared(evidence: Evidence, trials: Trials) -> Iterator[Conclusion]:
    """Everything may be fine and still cost too much: a machine that is on for nothing."""
    own = evidence.recording.node
    others = [one for one in evidence.nodes if one.node != own and one.busy < LEAST_BUSY]
    if len(evidence.nodes) < 2 or trials.base is None or not others:
        return
    least = min(others, key=lambda one: one.busy)
    trial = trials.node_less(least.node)
    if trial is None or trials.base.gains(trial):
        return
    numbers = {"busy": least.busy, "node_requests": float(least.requests)} | _numbers(trials.base, trial)
    told = f"Idle nodes: {least.name} was at work for {part(least.busy)} of its slots' time"
    without = f"; without it the run would end in {change(trials.base.makespan_s, trial.makespan_s)}"
    yield Conclusion("idle-nodes", False, f"{told}{without}: this run could spare it.", numbers, 0.0)


def fastest(evidence: Evidence) -> NodeUse | None:
    """The node whose engines write most with all slots in use."""
    speeds: dict[str, float] = {}
    for place in evidence.recording.places:
        for rates in place.rates.values():
            share = 1.0 / (1.0 + rates.beta * (place.slots - 1))
            full = rates.decode_tokens_per_s * max(1.0, place.slots * share)
            speeds[place.node] = max(speeds.get(place.node, 0.0), full)
    known = [one for one in evidence.nodes if one.node in speeds]
    return max(known, key=lambda one: speeds[one.node], default=None)


def _why_not(evidence: Evidence) -> str:
    if evidence.requests == 1:
        return " One request runs on one machine."
    if all(one.after is not None for one in evidence.recording.requests[1:]):
        return " Each request waits for the reply to the one before, so no two run at once."
    return ""


def _numbers(base: Trial, trial: Trial) -> dict[str, float]:
    return {"simulated_before_s": base.makespan_s, "simulated_after_s": trial.makespan_s}
