"""Client ports: who has them, what stands beside them, and what was moved to make room."""

from collections.abc import Iterator

from pairproxy.api.diagnosis import Finding
from pairproxy.doctor.facts import Facts, Listener, Moved, Unknown
from pairproxy.takeover.plan import name_of

TWINS = {"127.0.0.1": "::1", "localhost": "::1", "::1": "127.0.0.1"}


def are_ours(facts: Facts) -> Iterator[Finding]:
    """What the daemon says of its client ports."""
    ports = () if isinstance(facts.status, Unknown) else facts.status.ports
    back = {one.usual for one in _are_back(facts)}
    has_silent = isinstance(facts.engines, tuple) and any(not one.is_up for one in facts.engines)
    for one in ports:
        about = f"port {one.port}"
        if one.port in back or (one.state == "closed" and has_silent):
            continue  # why, another check says
        if one.state == "held":
            yield Finding(
                "port-held",
                "problem",
                f"Port {one.port} is held by {one.holder or 'another program'}, so what clients send "
                "there is not distributed.",
                "If that is the engine itself, `pairproxy takeover` moves it aside, or says how you can. "
                "Else stop that program, or give pairproxy another port with engines.listen in config.toml.",
                about,
            )
        elif one.state == "closed":
            yield Finding(
                "port-closed",
                "problem",
                f"{one.why or f'Port {one.port} is closed.'} Clients are refused.",
                "Start the engine, or see `pairproxy status` for why the peers do not serve.",
                about,
            )
        elif one.state == "given":
            yield Finding(
                "port-given",
                "note",
                f"Port {one.port} is left to the engine, as was asked: what comes there is not distributed.",
                "Have it back with `pairproxy takeover`.",
                about,
            )


def have_no_stranger_beside(facts: Facts) -> Iterator[Finding]:
    """Another program at the other loopback address of a client port: `localhost` may lead there."""
    if facts.daemon is None or isinstance(facts.listeners, Unknown) or isinstance(facts.status, Unknown):
        return
    for engine, port in facts.daemon.client_ports.items():
        host = facts.daemon.client_hosts.get(engine, "127.0.0.1")
        there = [one for one in facts.listeners if one.port == port]
        # Who looks from another account is shown no program at all, not even ours.
        is_shown = any(one.host == host and one.pid == facts.daemon.pid for one in there)
        for one in there:
            if one.host == TWINS.get(host) and one.pid != facts.daemon.pid and is_shown:
                yield Finding(
                    "port-shared",
                    "problem",
                    f"Port {port} of {one.host} belongs to {_who(one)}: programs that call localhost may "
                    "reach that one in place of pairproxy, prompts included.",
                    f"Stop that program if it is not meant to be there, or have yours call 127.0.0.1:{port}.",
                    f"port {port}",
                )
                break


def _who(one: Listener) -> str:
    name = one.name or "a program"
    return f"{name} (pid {one.pid})" if one.pid is not None else f"{name} of another user"


def takeover_holds(facts: Facts) -> Iterator[Finding]:
    """An undo record against what is there now."""
    if isinstance(facts.moved, Unknown):
        yield Finding("takeover-unreadable", "problem", facts.moved.why, "", "takeover.json")
        return
    back = _are_back(facts)
    for one in facts.moved:
        if not one.is_whole:
            yield Finding(
                "takeover-half",
                "problem",
                f"Moving {name_of(one.kind)} off port {one.usual} was interrupted, and what was changed "
                "still stands.",
                "Put everything back with `pairproxy release`, then try `pairproxy takeover` again.",
                one.kind,
            )
        elif one in back:
            yield Finding(
                "takeover-lost",
                "problem",
                f"{name_of(one.kind)} was moved to port {one.moved} and is back on port {one.usual}, by an "
                "update or a restart: what clients send is not distributed.",
                "Move it again with `pairproxy takeover`, or let it be with `pairproxy release`.",
                one.kind,
            )
        elif facts.daemon is None or isinstance(facts.status, Unknown):
            yield Finding(
                "takeover-without-daemon",
                "problem",
                f"{name_of(one.kind)} was moved to port {one.moved}, and no daemon stands at port "
                f"{one.usual}: its clients are refused.",
                "Start the daemon with `pairproxy up` (for good: `pairproxy service install`), or put the "
                "engine back with `pairproxy release`.",
                one.kind,
            )


def _are_back(facts: Facts) -> tuple[Moved, ...]:
    """Engines that were moved, and whose usual port another program than the daemon has now."""
    if isinstance(facts.moved, Unknown) or isinstance(facts.listeners, Unknown):
        return ()
    ports = () if isinstance(facts.status, Unknown) else facts.status.ports
    ours = {one.port for one in ports if one.state == "open"}
    if facts.daemon is not None:
        ours |= {one.port for one in facts.listeners if one.pid == facts.daemon.pid}
    held = {one.port for one in facts.listeners} - ours
    moved = {one.port for one in facts.listeners}
    return tuple(one for one in facts.moved if one.is_whole and one.usual in held and one.moved not in moved)
