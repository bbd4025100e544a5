"""Clients: whether what they are told leads them to pairproxy."""

from collections.abc import Iterator

from pairproxy.api.diagnosis import Finding, Level
from pairproxy.doctor.facts import Facts, Unknown
from pairproxy.takeover.leaks import FRONTS, OLLAMA_HOST, PRIVATE, PROXIES, leaks


def are_not_led_past(facts: Facts) -> Iterator[Finding]:
    """Variables that lead programs to an engine itself, to another machine, or to a proxy."""
    if isinstance(facts.surroundings, Unknown):
        return
    engines = () if isinstance(facts.engines, Unknown) else facts.engines
    fronts = {*facts.fronts} or set(FRONTS)
    private = {*PRIVATE, *(one.port for one in engines)} - fronts
    for told in facts.surroundings:
        for leak in leaks(told.variables, told.where, fronts, private):
            kind = "clients-proxied" if leak.variable in PROXIES else "clients-bypass"
            means = f"{leak.variable} is set in {leak.where}: {leak.what[0].lower()}{leak.what[1:]}"
            yield Finding(kind, _level(facts, leak.variable), means, leak.mend, leak.variable)


def _level(facts: Facts, variable: str) -> Level:
    """On Windows a takeover of Ollama needs the variable: it is told, and nothing can be mended."""
    is_ours = isinstance(facts.moved, tuple) and any(one.kind == "ollama" for one in facts.moved)
    is_needed = facts.machine.system == "win32" and variable == OLLAMA_HOST and is_ours
    return "note" if is_needed else "warning"
