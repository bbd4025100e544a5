"""Clients: whether what they are told leads them to pairproxy."""

from collections.abc import Iterator

from pairproxy.api.diagnosis import Finding
from pairproxy.doctor.facts import Facts, Unknown
from pairproxy.takeover.leaks import FRONTS, PRIVATE, PROXIES, leaks


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
            yield Finding(kind, "warning", means, leak.mend, leak.variable)
