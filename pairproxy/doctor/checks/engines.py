"""Engines: there, mended, out of others' reach, and given as many requests as they compute at once."""

from collections.abc import Iterator

from pairproxy.api.diagnosis import Finding
from pairproxy.doctor.facts import Facts, SeenEngine, Unknown
from pairproxy.doctor.holes import UPDATE, holes_of
from pairproxy.doctor.probes.listening import outside
from pairproxy.engines.ports import STANDS_FOR_OLLAMA

NAMES = {"ollama": "Ollama", "lmstudio": "LM Studio", "llamacpp": "llama-server", "openai": "the engine"}
_START = {
    "ollama": "Start Ollama: its app, `systemctl start ollama`, or `ollama serve`.",
    "lmstudio": "Start its server: `lms server start`.",
}
_TO_LOOPBACK = {
    "ollama": "Let Ollama listen on this machine only: `pairproxy takeover` does, or set OLLAMA_HOST "
    'to 127.0.0.1 where it is started, switch off "Expose Ollama to the network" in its app, and restart it.',
    "lmstudio": 'Switch off "Serve on Local Network" in LM Studio, or `lms server start --bind 127.0.0.1`.',
    "llamacpp": "Start llama-server with `--host 127.0.0.1`.",
    "openai": "Start the engine with `--host 127.0.0.1`.",
}


def name(engine: SeenEngine) -> str:
    """An engine in a sentence."""
    return f"{NAMES.get(engine.kind, engine.kind)} on port {engine.port}"


def answer(facts: Facts) -> Iterator[Finding]:
    """Engines that do not, and a machine without any."""
    found = _engines(facts)
    for one in found:
        if not one.is_up:
            yield Finding(
                "engine-silent",
                "problem",
                f"{name(one)} does not answer, so this machine computes nothing with it.",
                _START.get(one.kind, "Start it, or take its [[engines]] entry out of config.toml."),
                one.id,
            )
    kinds = {engine.kind for engine in (facts.own.engines if facts.own is not None else ())}
    if not isinstance(facts.settings, Unknown):
        kinds |= {entry.kind for entry in facts.settings.engines}
    has_own = not kinds.isdisjoint(STANDS_FOR_OLLAMA)  # those are ours, and live in the daemon
    if not found and not has_own and not isinstance(facts.engines, Unknown):
        yield Finding(
            "no-engine",
            "note",
            "No engine was found on this machine: it can only ask others.",
            "Start Ollama, LM Studio, llama-server or vLLM here, or `pairproxy up --engine embedded`.",
        )


def have_no_known_hole(facts: Facts) -> Iterator[Finding]:
    """Versions that should not be run any more."""
    for one in _engines(facts):
        if holes := holes_of(one.kind, one.version):
            told = "; ".join(f"{hole.cve}: {hole.what}" for hole in holes)
            yield Finding(
                "engine-hole",
                "problem",
                f"{name(one)} is version {one.version}, with known holes ({told}).",
                f"{UPDATE[one.kind]} ({max(holes, key=lambda hole: _order(hole.mended)).mended} or later).",
                one.id,
            )


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def are_shut(facts: Facts) -> Iterator[Finding]:
    """Engines that other machines reach past pairproxy: most ask nobody for a key."""
    there = facts.reached if isinstance(facts.listeners, Unknown) else facts.listeners
    for one in _engines(facts):
        reached = sorted({listener.host for listener in outside(there, one.port)})
        if reached:
            yield Finding(
                "engine-exposed",
                "problem",
                f"{name(one)} listens on {' and '.join(reached)}: whoever reaches this machine can use it, "
                "load and delete models, without a key and past pairproxy.",
                _TO_LOOPBACK.get(one.kind, "Let it listen on 127.0.0.1 only."),
                one.id,
            )


def have_their_slots(facts: Facts) -> Iterator[Finding]:
    """Slots that are not what the engine computes at once."""
    if isinstance(facts.measured, tuple):
        for seen in facts.measured:
            if seen.at_once != seen.slots:
                how = "was seen to compute" + (" at least" if seen.at_once == seen.asked else "")
                yield _slots(seen.engine, seen.slots, seen.at_once, how)
        return
    for one in _engines(facts):
        if one.parallel is not None and one.slots is not None and one.parallel != one.slots:
            yield _slots(one.id, one.slots, one.parallel, "was told (OLLAMA_NUM_PARALLEL) to compute")


def _slots(engine: str, slots: int, at_once: int, how: str) -> Finding:
    wait = "what is sent beyond that waits inside it, unseen" if slots > at_once else "the rest lies idle"
    return Finding(
        "slots-differ",
        "warning",
        f"pairproxy sends {engine} {slots} at once, and it {how} {at_once}: {wait}.",
        f"Set `slots = {at_once}` in its [[engines]] entry of config.toml, or let the engine compute {slots} "
        "at once (Ollama: OLLAMA_NUM_PARALLEL).",
        engine,
    )


def _engines(facts: Facts) -> tuple[SeenEngine, ...]:
    return () if isinstance(facts.engines, Unknown) else facts.engines
