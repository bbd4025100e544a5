"""Find everything out, then judge it. The probes run together: it takes as long as the slowest of them."""

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from pairproxy import __version__, is_compiled
from pairproxy.api.diagnosis import Diagnosis, Finding, NotLooked
from pairproxy.config import Settings
from pairproxy.doctor.checks import CHECKS, Check
from pairproxy.doctor.facts import Card, Facts, Listener, Unknown
from pairproxy.doctor.measuring import measured
from pairproxy.doctor.probes import (
    asking,
    engines,
    files,
    firewall,
    installing,
    listening,
    machine,
    multicast,
    surroundings,
)
from pairproxy.doctor.probes.scene import Scene
from pairproxy.takeover.running import Runner

PROBE_S = 8.0  # for all probes; multicast listens 1.4 s, two commands of the system may take 3 each
WORST_FIRST = ("problem", "warning", "note")
Probe = Callable[[], Any]


class Examined(NamedTuple):
    """What was found out, and what it means."""

    facts: Facts
    diagnosis: Diagnosis


def scene_of(home: Path, environment: Mapping[str, str] | None = None) -> Scene:
    """This machine, for the home of a daemon."""
    told = dict(os.environ if environment is None else environment)
    return Scene(home, Path(told.get("HOME") or Path.home()), told, Runner(told, may_ask=False))


def examine(scene: Scene, *, measures: bool = False) -> Examined:
    """All of it. ``measures``: send requests to the engines as well, to see how many run at once."""
    began_at = time.monotonic()
    facts = gather(scene)
    if measures:
        facts = replace(facts, measured=measured(facts))
    return Examined(facts, judge(facts, files.node_of(scene.home), time.monotonic() - began_at))


def judge(facts: Facts, node: str, took_s: float) -> Diagnosis:
    """What the facts mean, the worst first; what is missing among them says what could not be judged."""
    findings: list[Finding] = []
    looked, not_looked = [], []
    for check in CHECKS:
        why = lacking(facts, check)
        if why is None:
            findings += check.find(facts)
            looked.append(check.looks_at)
        else:
            not_looked.append(NotLooked(check.looks_at, why))
    if isinstance(facts.measured, Unknown):
        not_looked.append(NotLooked("slots by measuring", facts.measured.why))
    findings.sort(key=lambda one: WORST_FIRST.index(one.level))
    return Diagnosis(
        version=__version__,
        node=node,
        has_daemon=not isinstance(facts.status, Unknown),
        is_ok=not any(one.level in ("problem", "warning") for one in findings),
        findings=tuple(findings),
        looked_at=tuple(looked),
        not_looked_at=tuple(not_looked),
        took_s=round(took_s, 2),
        measured=facts.measured if isinstance(facts.measured, tuple) else (),
        is_compiled=is_compiled(),
    )


def lacking(facts: Facts, check: Check) -> str | None:
    """Why a check has nothing to go by; None: it has."""
    for name in check.needs:
        value = getattr(facts, name)
        if isinstance(value, Unknown):
            return value.why
    return None


def gather(scene: Scene) -> Facts:
    """Find out everything: first the daemon and the settings, for the others go by them."""
    told = asking.told(scene)
    settings, settings_problem = files.settings(scene)
    peers, peers_problem = files.peers(scene)
    found = together(
        {
            "engines": lambda: _engines(told, settings),
            "surroundings": lambda: surroundings.surroundings(scene),
            "files": lambda: files.open_files(scene.home),
            "places": lambda: files.places(scene.home),
            "history_problem": lambda: files.history_problem(scene.home),
            "cards": lambda: _cards(settings),
            "firewall": lambda: firewall.firewall(
                scene, _peer_port(told), is_discovering=_discovers(settings)
            ),
            "machine": machine.machine,
            "process": lambda: asking.process_of(scene.home, told.file),
            "moved": lambda: installing.moved(scene.home),
            "services": lambda: installing.services(scene),
        },
        PROBE_S,
    )
    listeners, seen, reached = _three(found.pop("engines"))
    return Facts(
        home=scene.home,
        settings=settings,
        settings_problem=settings_problem,
        daemon=told.file,
        status=told.status,
        models=told.models,
        peers=peers,
        peers_problem=peers_problem,
        listeners=listeners,
        engines=seen,
        reached=reached,
        **found,
    )


def together(probes: Mapping[str, Probe], patience_s: float) -> dict[str, Any]:
    """Each probe in a thread of its own; one that takes too long, or fails, is Unknown."""
    found: dict[str, Any] = {name: Unknown(f"it took longer than {patience_s:.0f} s") for name in probes}
    until = time.monotonic() + patience_s

    def run(name: str, probe: Probe) -> None:
        try:
            found[name] = probe()
        except Exception as error:  # noqa: BLE001 - whatever one meets, the others are told
            found[name] = Unknown(f"looking failed ({type(error).__name__})")

    threads = [threading.Thread(target=run, args=one, daemon=True) for one in probes.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    return dict(found)


def _three(found: Any) -> tuple[Any, Any, tuple[Listener, ...]]:
    return (found, found, ()) if isinstance(found, Unknown) else found


def _engines(told: asking.Told, settings: Settings | Unknown) -> tuple[Any, Any, tuple[Listener, ...]]:
    listeners = listening.listeners()
    seen = engines.engines(told, settings, listeners)
    if isinstance(listeners, tuple) or isinstance(seen, Unknown):
        return listeners, seen, ()
    return listeners, seen, listening.reached(one.port for one in seen)


def _peer_port(told: asking.Told) -> int | None:
    return None if isinstance(told.status, Unknown) else told.status.peer_port


def _cards(settings: Settings | Unknown) -> tuple[Card, ...] | Unknown:
    if isinstance(settings, Unknown):
        return settings
    if not settings.peers.discovery:  # then nothing of ours is sent by multicast, a question neither
        return Unknown("peers.discovery is off")
    return multicast.cards(has_loopback=settings.peers.loopback)


def _discovers(settings: Settings | Unknown) -> bool:
    return not isinstance(settings, Unknown) and settings.peers.discovery and not settings.peers.loopback
