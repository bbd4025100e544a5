"""Second branch of the tree: the first token comes late. Prefixes where prompts begin alike, else prefill."""

from collections.abc import Iterator

from pairproxy.core.advice.evidence import Conclusion, Evidence
from pairproxy.core.advice.trial import Trial
from pairproxy.core.advice.trials import Trials
from pairproxy.core.advice.words import change, part, seconds

OURS = "fastest-finish"
BY_PREFIX = frozenset((OURS, "prefix-aware"))  # the policies that look at how prompts begin
FINE_TTFT_S = 0.45
"""Sooner than a person calls slow: the limit of MLPerf Inference v5.0, Llama 2 70B, interactive scenario."""
LEAST_MISSED = 0.1  # of the prompts' tokens: what could have come from a cache and did not
MORE_HITS = 0.05  # of them: a policy with so many more is better for its routing by prefix
IN_COMPANY = 2.0  # times as long as alone: others' prompts were read at the same time
MOST_FINDINGS = 2  # clients that are told, the costliest first


def prefix_routing(evidence: Evidence, trials: Trials) -> Iterator[Conclusion]:
    """Requests that begin alike go where this beginning was read; and what a policy gains otherwise."""
    known, policy, base = evidence.prefixes, evidence.recording.policy, trials.base
    reached = "an unknown part" if known.reached is None else part(known.reached)
    numbers = {"hits_possible": known.possible, "prompt_tokens": float(known.prompt_tokens)}
    if known.reached is not None:
        numbers["hits_reached"] = known.reached
    told = f"{reached} of the prompts' tokens came from a cache, {part(known.possible)} could have"
    ours = trials.policy(OURS) if policy != OURS and len(evidence.nodes) > 1 else None
    if base is not None and ours is not None:
        is_prefix = ours.hit_rate >= base.hit_rate + MORE_HITS
        yield _other_policy(policy, base, ours, told if is_prefix or not ours.gains(base) else "", numbers)
        return
    missed, why = known.possible - (known.reached or 0.0), told
    if policy not in BY_PREFIX and missed >= LEAST_MISSED and len(evidence.nodes) > 1:
        why = f'{told}, and {policy} does not look at them. Set routing.policy = "{OURS}" and see'
        yield Conclusion("prefix-routing", True, f"Prefix routing: {why}.", numbers)
        return
    if known.possible < LEAST_MISSED:
        why = "the prompts have no beginning in common"
    elif missed >= LEAST_MISSED and len(evidence.nodes) > 1:
        why += "; to read a beginning at several places at once was sooner than to wait for it"
    yield Conclusion("prefix-routing", False, f"Prefix routing: {why}.", numbers)


def _other_policy(policy: str, base: Trial, ours: Trial, told: str, numbers: dict[str, float]) -> Conclusion:
    numbers = numbers | {"hits_simulated": ours.hit_rate}
    effect = f"With {OURS} instead of {policy} {ours.effect(base)}"
    set_it = f' Set routing.policy = "{OURS}" and run `pairproxy reload`.'
    if not told:
        return ours.concluded("routing", base, f"Routing: {effect}.{set_it}", numbers)
    if ours.gains(base):
        effect += f", {_first(base, ours)}, {part(ours.hit_rate)} cached.{set_it}"
    else:
        effect += "."
    return ours.concluded("prefix-routing", base, f"Prefix routing: {told}. {effect}", numbers)


def prompt_order(evidence: Evidence, trials: Trials) -> Iterator[Conclusion]:
    """Clients that put what changes before what stays: all behind it is read again."""
    base = trials.base
    for one in evidence.prefixes.findings[:MOST_FINDINGS]:
        finding = one[0]
        numbers = {
            "diverges_at_byte": float(finding.character),
            "lost_tokens": float(finding.lost_tokens),
            "times": float(finding.times),
        }
        told, trial = f"Order of the prompt: {finding.sentence}", trials.mended([one])
        if base is None or trial is None:
            yield Conclusion("prefix-routing", True, told, numbers)
            continue
        effect = f"{told} Then {trial.effect(base)}, {_first(base, trial)}."
        yield trial.concluded("prefix-routing", base, effect, numbers)


def prefill(evidence: Evidence, trials: Trials) -> Iterator[Conclusion]:
    """Reading itself, where no cache can spare it."""
    timing, base = evidence.timing, trials.base
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
    reads = f"Faster reading: the first token came {seconds(timing.read_s)} after a slot was found"
    trial = trials.faster(prefill=2.0)
    if (why := _no_matter_of_speed(evidence, timing.read_s)) is not None:
        if timing.read_s < FINE_TTFT_S and base is not None and trial is not None and trial.gains(base):
            why += f"; who waits for whole replies gains by it: twice as fast, {trial.effect(base)}"
        yield Conclusion("prefill", False, f"{reads}{why}.", numbers)
        return
    if base is None or trial is None:
        return
    beside = ""
    if timing.read_s > IN_COMPANY * timing.alone_read_s:
        beside = f", {seconds(timing.alone_read_s)} of it for the prompt itself, the rest beside others there"
    told = f"{reads}{beside}, and caches can spare little of it. Read twice as fast, {trial.effect(base)}"
    if trial.gains(base):
        told += ": shorter prompts, a GPU that computes more, or the engine's own settings do that"
    yield trial.concluded("prefill", base, f"{told}.", numbers)


def _no_matter_of_speed(evidence: Evidence, read_s: float) -> str | None:
    """Why to read faster is not what helps; None: it may."""
    known = evidence.prefixes
    if read_s < FINE_TTFT_S:
        return ", which is soon enough"
    is_blind = evidence.recording.policy not in BY_PREFIX
    if is_blind and known.possible - (known.reached or 0.0) >= LEAST_MISSED:
        return "; first let what prompts have in common be read once"
    if known.findings:
        return "; first let the prompts begin with what does not change"
    return None


def _first(base: Trial, trial: Trial) -> str:
    return f"the first token after {change(base.ttft_s, trial.ttft_s)}"
