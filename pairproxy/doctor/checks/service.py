"""The daemon as a service: it starts by itself, it runs, and there is one of it."""

from collections.abc import Iterator

from pairproxy.api.diagnosis import Finding
from pairproxy.doctor.facts import Facts

AGAIN = "`pairproxy service install` puts it right"


def works(facts: Facts) -> Iterator[Finding]:
    """What the system says of those that are installed."""
    for one in facts.own_services:
        see = f" Its log: `{one.log}`." if one.log else ""
        if one.problem:
            yield Finding("service-fails", "problem", one.problem, f"{AGAIN}.{see}", one.manager)
        elif not one.is_running:
            yield Finding(
                "service-stopped",
                "problem",
                f"pairproxy is a service here ({one.manager}) and does not run: {one.state or 'stopped'}.",
                f"Start it with your system's own command, or {AGAIN}.{see}",
                one.manager,
            )
        elif not one.is_enabled:
            yield Finding(
                "service-not-enabled",
                "warning",
                f"The service ({one.manager}) runs, and will not start by itself the next time.",
                f"{AGAIN}.",
                one.manager,
            )
    if len(facts.own_services) > 1:
        names = " and ".join(one.manager for one in facts.own_services)
        yield Finding(
            "services-two",
            "warning",
            f"pairproxy is installed as a service twice ({names}): only one of them can run with this home.",
            "`pairproxy service uninstall` removes one; `pairproxy service status` shows both.",
        )
