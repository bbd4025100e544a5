"""Second branch of the tree: the first token comes late. Prefixes where prompts begin alike, else prefill."""

from collections.abc import Iterator

from pairproxy.core.advice.evidence import Conclusion, Evidence
from pairproxy.core.advice.trials import Trial, Trials
from pairproxy.core.advice.words import change, part, seconds

OURS = "fastest-finish"
FINE_TTFT_S = 0.45
"""Sooner than a person calls slow: the limit of MLPerf Inference v5.0, Llama 2 70B, interactive scenario."""
LEAST_MISSED = 0.1  # of the prompts' tokens: what could have come from a cache and did not
MORE_HITS = 0.05  # of them: a policy with so many more is better for its routing by prefix
IN_COMPANY = 2.0  # times as long as alone: others' prompts were read at the same time
MOST_FINDINGS = 2  # clients that are told, the costliest first


def prefix_routing(evidence: Evidence, trials: Trials) -> Iterator[Conclusion]:
    """Requests that begin alike go where this beginning was read; and what a policy gains otherwise."""
    known, policy = evidence.prefixes, evidence.recording.policy
    reached = "unknown" if known.reached is None else part(known.reached)
    numbers = {"hits_possible": known.possible, "prompt_tokens": float(known.prompt_tokens)}
    if known.reached is not None:
        numbers["hits_reached"] = known.reached
    told = f"{reached} of the prompts' tokens came from a cache, {part(known.possible)} could have"
    base = trials.base
    ours = trials.policy(OURS) if policy != OURS and len(evidence.nodes) > 1 else None
    if base is not None and ours is not None and ours.gains(base):
        is_prefix = ours.hit_rate >= base.hit_rate + MORE_HITS
        yield _other_policy(evidence, base, ours, told if is_prefix else "", numbers)
    elif policy == OURS or len(evidence.nodes) < 2:
        missed = known.possible - (known.reached or 0.0)
        why = "prompts begin with nothing in common" if known.possible < LEAST_MISSED else told
        if missed >= LEAST_MISSED:
            why += "; to read a beginning at several places at once, or again, was sooner than to wait for it"
        yield Conclusion("prefix-routing", False, f"Prefix routing: {why}.", numbers)
    else:
        yield Conclusion(
            "prefix-routing",
            False,
            f"Prefix routing: {told}. {OURS} instead of {policy} {_nothing(base, ours)}.",
            numbers,
            None if base is None or ours is None else base.makespan_s - ours.makespan_s,
        )


def prompt_order(evidence: Evidence, trials: Trials) -> Iterator[Conclusion]:
    """Clients that put what changes before what stays: all behind it is read again."""
    found = evidence.prefixes.findings[:MOST_FINDINGS]
    for one in found:
        finding = one[0]
        trial = trials.mended([one])
        numbers = {
            "diverges_at_byte": float(finding.character),
            "lost_tokens": float(finding.lost_tokens),
            "times": float(finding.times),
        }
        base = trials.base
        if base is None or trial is None:
            yield Conclusion("prefix-routing", True, f"Order of the prompt: {finding.sentence}", numbers)
            continue
        numbers |= _numbers(base, trial)
        helps = trial.gains(base)
        gain = f" The run would end in {change(base.makespan_s, trial.makespan_s)}, {_first(base, trial)}."
        yield Conclusion(
            "prefix-routing",
            helps,
            f"Order of the prompt: {finding.sentence}{gain}",
            numbers,
            base.makespan_s - trial.makespan_s,
        )


def prefill(evidence: Evidence, trials: Trials) -> Iterator[Conclusion]:
    """Reading itself, where no cache can spare it."""
    timing = evidence.timing
    if timing.read_s is None or timing.alone_read_s is None or timing.ttft_s is None:
        return
    numbers = {
        "ttft_s": timing.ttft_s,
        "read_s": timing.read_s,
        "alone_read_s": timing.alone_read_s,
        "queue_s": timing.queue_s,
    }
    if timing.best_read_s is not None:
        numbers["best_read_s"] = timing.best_read_s
    reads = f"the first token came {seconds(timing.read_s)} after a slot was found"
    if timing.read_s < FINE_TTFT_S:
        yield Conclusion("prefill", False, f"Faster reading: {reads}, which is soon enough.", numbers)
        return
    if evidence.prefixes.possible - (evidence.prefixes.reached or 0.0) >= LEAST_MISSED:
        why = "what prompts have in common should be read once before reading is made faster"
        yield Conclusion("prefill", False, f"Faster reading: {reads}; {why}.", numbers)
        return
    if timing.read_s > IN_COMPANY * timing.alone_read_s:
        why = f"{seconds(timing.alone_read_s)} of it for the prompt itself, the rest beside others there"
        yield Conclusion("prefill", False, f"Faster reading: {reads}, {why}.", numbers)
        return
    base, trial = trials.base, trials.faster(prefill=2.0)
    if base is None or trial is None:
        return
    numbers |= _numbers(base, trial)
    twice = f"Read twice as fast the run would end in {change(base.makespan_s, trial.makespan_s)}"
    helps = trial.gains(base)
    then = (
        ": shorter prompts, a GPU that computes more, or the engine's own settings (flash attention, batch)"
        if helps
        else ""
    )
    sentence = f"Faster reading: {reads}, and caches spare little of it. {twice}{then}."
    yield Conclusion("prefill", helps, sentence, numbers, base.makespan_s - trial.makespan_s)


def _other_policy(
    evidence: Evidence, base: Trial, ours: Trial, told: str, numbers: dict[str, float]
) -> Conclusion:
    policy, gain_s = evidence.recording.policy, base.makespan_s - ours.makespan_s
    numbers |= _numbers(base, ours) | {"hits_simulated": ours.hit_rate}
    ends = f"{OURS} instead of {policy} would end the run in {change(base.makespan_s, ours.makespan_s)}"
    set_it = f'Set routing.policy = "{OURS}" and run `pairproxy reload`.'
    if told:
        cached = f"{part(ours.hit_rate)} cached"
        sentence = f"Prefix routing: {told}. {ends}, {_first(base, ours)}, {cached}. {set_it}"
        return Conclusion("prefix-routing", True, sentence, numbers, gain_s)
    return Conclusion("routing", True, f"Routing: {ends}. {set_it}", numbers, gain_s)


def _first(base: Trial, trial: Trial) -> str:
    return f"the first token after {change(base.ttft_s, trial.ttft_s)} on average"


def _nothing(base: Trial | None, ours: Trial | None) -> str:
    if base is None or ours is None:
        return "is not simulated"
    return f"would end the run in {change(base.makespan_s, ours.makespan_s)}"


def _numbers(base: Trial, trial: Trial) -> dict[str, float]:
    return {
        "simulated_before_s": base.makespan_s,
        "simulated_after_s": trial.makespan_s,
        "ttft_before_s": base.ttft_s,
        "ttft_after_s": trial.ttft_s,
    }
