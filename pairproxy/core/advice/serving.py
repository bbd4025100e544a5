"""Last branch of the tree: all is fine at the engines. What is ours: the loop, connections, the way there."""

from collections.abc import Iterator

from pairproxy.core.advice.evidence import Conclusion, Evidence
from pairproxy.core.advice.words import counted, part, seconds

HIGH_LAG_S = 0.05  # a token of 20 tokens/s: what holds the loop for longer is seen by whoever reads
HIGH_TRANSPORT = 0.05  # of a request's time outside of its engine; on a LAN it is milliseconds
LEAST_REUSED = 0.5  # of the connections; a new one to a peer costs 3 ms, a used one 0.3
LEAST_CONNECTIONS = 20  # fewer say nothing


def service_layer(evidence: Evidence) -> Iterator[Conclusion]:
    """One conclusion for what costs too much, or one that nothing does."""
    service, timing = evidence.service, evidence.timing
    numbers = {"loop_lag_s": service.loop_lag_s}
    found = []
    if service.loop_lag_s > HIGH_LAG_S:
        found.append(
            f"the daemon was held up for {seconds(service.loop_lag_s)}: something else uses this machine's "
            "processor, or its log names what did it"
        )
    fine = [f"the daemon was held up for {seconds(service.loop_lag_s)} at most"]
    if service.transport_s is not None:
        numbers["transport_s"] = service.transport_s
        away = f"{seconds(service.transport_s)} of a request passed outside of its engine's own account"
        if service.transport_s > HIGH_TRANSPORT * timing.latency_s:
            found.append(
                f"{away} ({part(service.transport_s / timing.latency_s)}): the engine has a queue of its "
                "own, so somebody asks it beside this port, or has fewer slots than the settings say"
            )
        fine.append(away)
    used = service.reused + service.dialled
    if used >= LEAST_CONNECTIONS:
        numbers["connections_reused"] = service.reused / used
        kept = f"{part(service.reused / used)} of the connections had served before"
        if service.reused < LEAST_REUSED * used:
            found.append(f"only {kept}: requests come further apart than engines keep connections open")
        fine.append(kept)
    if service.foreign:
        numbers["foreign_slots"] = float(service.foreign)
        found.append(
            f"{counted(service.foreign, 'slot')} less is offered, for somebody asks the engine beside this "
            "port: point him at it, too"
        )
    said = "; ".join(found or fine)
    yield Conclusion("service-layer", bool(found), f"Service layer: {said}.", numbers)
