"""Last branch of the tree: all is fine at the engines. What is ours: the loop, connections, the way there."""

from collections.abc import Iterator

from pairproxy.core.advice.evidence import Conclusion, Evidence
from pairproxy.core.advice.trial import LEAST_GAIN
from pairproxy.core.advice.trials import Trials
from pairproxy.core.advice.words import counted, listed, part, seconds

HIGH_LAG_S = 0.05  # a token of 20 tokens/s: what holds the loop for longer is seen by whoever reads
CONNECT_S = 0.003  # a new TLS connection to a peer on a LAN with both certificates; a used one costs a tenth
LEAST_CONNECTIONS = 20  # fewer say nothing


def loading(evidence: Evidence, trials: Trials) -> Iterator[Conclusion]:
    """Models that the run had to wait for."""
    base, trial = trials.base, trials.warm()
    cold = [place for place in evidence.recording.places if not place.is_loaded]
    if base is None or trial is None or not cold:
        return
    longest_s = max(rates.load_s for place in cold for rates in place.rates.values())
    nodes = {one.node: one.name for one in evidence.nodes}
    names = listed(sorted({nodes.get(place.node, place.node[:8]) for place in cold}))
    told = f"Loading: {names} had to load the model, up to {seconds(longest_s)}"
    told += f". With it in memory before, {trial.effect(base)}"
    if trial.gains(base):
        told += (
            ": let the engine keep it (Ollama: OLLAMA_KEEP_ALIVE), or send each node a short request first"
        )
    numbers = {"load_s": longest_s, "cold_engines": float(len(cold))}
    yield trial.concluded("loading", base, f"{told}.", numbers)


def service_layer(evidence: Evidence) -> Iterator[Conclusion]:
    """One conclusion for what costs too much, or one that nothing does.

    Too much is LEAST_GAIN of a request's time: what the best repair could gain.
    """
    numbers: dict[str, float] = {}
    found: list[str] = []
    fine: list[str] = []
    for costs, said in (_loop(evidence, numbers), _way(evidence, numbers), _connections(evidence, numbers)):
        (found if costs else fine).append(said)
    if evidence.service.foreign:
        numbers["foreign_slots"] = float(evidence.service.foreign)
        found.append(
            f"{counted(evidence.service.foreign, 'slot')} less is offered, for somebody asks the engine "
            "beside this port: point him at it, too"
        )
    said = "; ".join(filter(None, found or fine))
    yield Conclusion("service-layer", bool(found), f"Service layer: {said}.", numbers)


def _loop(evidence: Evidence, numbers: dict[str, float]) -> tuple[bool, str]:
    lag_s = numbers["loop_lag_s"] = evidence.service.loop_lag_s
    if lag_s <= max(HIGH_LAG_S, LEAST_GAIN * evidence.timing.latency_s):
        return False, f"the daemon was held up for {seconds(lag_s)} at most"
    why = "something else uses this machine's processor, or its log names what did it"
    return True, f"the daemon was held up for {seconds(lag_s)}: {why}"


def _way(evidence: Evidence, numbers: dict[str, float]) -> tuple[bool, str]:
    away_s, latency_s = evidence.service.transport_s, evidence.timing.latency_s
    if away_s is None:
        return False, ""
    numbers["transport_s"] = away_s
    away = f"{seconds(away_s)} of a request passed outside of its engine's own account"
    if away_s < LEAST_GAIN * latency_s:
        return False, away
    return True, (
        f"{away} ({part(away_s / latency_s)}): the engine has a queue of its own, so somebody asks it beside "
        "this port, or it has fewer slots than the settings say"
    )


def _connections(evidence: Evidence, numbers: dict[str, float]) -> tuple[bool, str]:
    reused, dialled = evidence.service.reused, evidence.service.dialled
    if reused + dialled < LEAST_CONNECTIONS:
        return False, ""
    numbers["connections_reused"] = reused / (reused + dialled)
    kept = (
        f"{part(reused / (reused + dialled))} of what was sent to peers went on connections that were there"
    )
    costs_s = CONNECT_S * dialled / (reused + dialled)
    if costs_s < LEAST_GAIN * evidence.timing.latency_s:
        return False, kept
    return True, f"only {kept}: requests so short gain by coming closer together, or by staying here"
