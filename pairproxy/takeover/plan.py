"""What `pairproxy takeover` would do, for each engine: looked at, never done here."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from pairproxy.config import EngineKind, Settings, parse_listen
from pairproxy.core.errors import ConfigError
from pairproxy.engines.ports import PORTS, client_port, engine_address
from pairproxy.takeover.asking import answers
from pairproxy.takeover.homebrew import Homebrew
from pairproxy.takeover.lmstudio import LmStudio
from pairproxy.takeover.machine import Machine
from pairproxy.takeover.macos import MacApp
from pairproxy.takeover.moving import CannotTake, Move, Mover, Owner, Plan
from pairproxy.takeover.owning import clients_of, owner_of
from pairproxy.takeover.record import Record, Taken
from pairproxy.takeover.refusing import Refusing
from pairproxy.takeover.systemd import Systemd
from pairproxy.takeover.windows import WindowsApp

KINDS: tuple[EngineKind, ...] = ("ollama", "lmstudio")  # those that have a private port
MOVERS: tuple[Mover, ...] = (Systemd(), LmStudio(), MacApp(), Homebrew(), WindowsApp(), Refusing())
"""Asked in this order; the first that applies makes the plan."""


NO_PLAN = Plan(())


@dataclass(frozen=True, slots=True)
class Pair:
    """The two ports of one kind of engine: its usual one, and the private one."""

    kind: EngineKind
    usual: int
    moved: int


@dataclass(frozen=True, slots=True)
class Planned:
    """What is to be done about one engine.

    take: move it by ``plan``. repair: it is back on its port; do the steps of ``taken`` again. undo: a
    takeover that was broken off has to be undone first. none: nothing is to be done, ``why`` tells.
    """

    pair: Pair
    what: Literal["take", "repair", "undo", "none", "cannot"]
    why: str
    owner: Owner | None = None
    mover: str = ""
    plan: Plan = NO_PLAN
    taken: Taken | None = None
    is_there: bool = False  # with none: the front has the port, as it should be


def pairs(settings: Settings, kinds: Iterable[str] = KINDS) -> tuple[Pair, ...]:
    """The ports of the engines that can be taken over: as config.toml says, or the usual ones."""
    found: dict[str, Pair] = {}
    for entry in settings.engines:
        listen = client_port(entry)
        if entry.kind in kinds and entry.kind in KINDS and listen is not None and entry.kind not in found:
            moved = engine_address(entry)[1]
            usual = parse_listen(listen, "engines.listen")[1]
            if usual not in (0, moved):
                found[entry.kind] = Pair(entry.kind, usual, moved)
    if not settings.engines:
        for kind in KINDS:
            private = PORTS[kind].moved
            if kind in kinds and private is not None:
                found[kind] = Pair(kind, PORTS[kind].usual, private)
    if not found:
        raise ConfigError(
            "config.toml describes no engine whose port could be taken over: engines.listen has to be its "
            "usual port, and engines.url its private one. With no [[engines]] at all both are found."
        )
    return tuple(found.values())


def planned(
    pair: Pair,
    record: Record,
    machine: Machine,
    movers: Sequence[Mover] = MOVERS,
    *,
    daemon: int | None = None,
) -> Planned:
    """Look at one engine. ``daemon``: the pid of the daemon of this home, if one runs."""
    taken = record.of(pair.kind)
    if taken is not None and not taken.is_done:
        return Planned(pair, "undo", "An earlier takeover was broken off: it is undone first.", taken=taken)
    owner = owner_of(pair.usual, machine.runner)
    is_ours = owner is not None and owner.pid is not None and owner.pid == daemon
    if taken is not None and (is_ours or owner is None):
        return Planned(pair, "none", _taken_already(pair), taken=taken, is_there=True)
    if owner is None or is_ours:
        return _without_owner(pair, is_ours=is_ours)
    if owner.kind != "pairproxy" and not answers(pair.kind, pair.usual):
        return Planned(pair, "cannot", _no_engine(pair, owner), owner)
    if taken is not None and owner.kind != "pairproxy":
        why = f"It is back on port {pair.usual} ({owner.told()}): moved again."
        return Planned(pair, "repair", why, owner, taken.mover, Plan(taken.steps), taken)
    move = Move(pair.kind, owner, pair.usual, pair.moved)
    mover = next(one for one in movers if one.applies(move))
    try:
        _refuse_taken_private(pair, machine)
        plan = mover.plan(move, machine)
    except CannotTake as error:
        return Planned(pair, "cannot", error.sentence, owner)
    return Planned(pair, "take", f"Port {pair.usual} is held by {owner.told()}.", owner, mover.name, plan)


def refuse_in_flight(planned: Planned, daemon: int | None, running: int) -> None:
    """Raise CannotTake if somebody is being served: the engine's restart would break it off.

    ``running``: what the daemon itself has running on that engine.
    """
    clients = clients_of(planned.pair.usual, [pid for pid in (daemon, os.getpid()) if pid is not None])
    if not clients and not running:
        return
    who = [*dict.fromkeys(clients), *([f"{running} for paired machines"] if running else [])]
    raise CannotTake(
        f"{_NAMES[planned.pair.kind]} is being used: {', '.join(who[:5])}. Moving it breaks off what runs "
        "there. Run this again when that has ended, or with --now."
    )


def name_of(kind: str) -> str:
    """How a person calls an engine of that kind."""
    return _NAMES.get(kind, kind)


def _without_owner(pair: Pair, *, is_ours: bool) -> Planned:
    if is_ours or answers(pair.kind, pair.moved):
        why = f"It is at its private port {pair.moved} already, not moved by pairproxy."
        return Planned(pair, "none", why if answers(pair.kind, pair.moved) else _served(pair), is_there=True)
    start = f"Start {_NAMES[pair.kind]} first."
    why = f"Nobody listens on port {pair.usual}: there is nothing to take over. {start}"
    return Planned(pair, "none", why)


def _served(pair: Pair) -> str:
    return f"pairproxy has port {pair.usual} already, and no {_NAMES[pair.kind]} answers here."


def _taken_already(pair: Pair) -> str:
    there = "" if answers(pair.kind, pair.moved) else ", where it does not answer now"
    return f"It was taken over already, and is at its private port {pair.moved}{there}."


def _no_engine(pair: Pair, owner: Owner) -> str:
    return (
        f"Port {pair.usual} is held by {owner.told()}, which does not answer as {_NAMES[pair.kind]}, so it "
        "is left alone. Stop that program, or give config.toml another engines.listen."
    )


def _refuse_taken_private(pair: Pair, machine: Machine) -> None:
    other = owner_of(pair.moved, machine.runner)
    if other is not None:
        raise CannotTake(
            f"The private port {pair.moved} is taken by {other.told()}, so {_NAMES[pair.kind]} cannot be "
            "moved there. Stop that program, or choose another port with engines.url in config.toml."
        )


_NAMES = {"ollama": "Ollama", "lmstudio": "LM Studio"}
