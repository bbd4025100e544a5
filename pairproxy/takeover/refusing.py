"""Owners of a port that are not moved, and what a person can do instead: one sentence for each."""

import sys

from pairproxy.takeover.asking import HOST
from pairproxy.takeover.machine import Machine
from pairproxy.takeover.moving import CannotTake, Move, OwnerKind, Plan

_AGAIN = "Then the daemon (`pairproxy up`, if none runs) finds it there and opens port {usual} by itself."
_SERVE = "`OLLAMA_HOST={host}:{moved} ollama serve`"
_SERVE_ON_WINDOWS = "`$env:OLLAMA_HOST = '{host}:{moved}'; ollama serve` (PowerShell)"


class Refusing:
    """Says no to every owner that no other mover knows."""

    name = "refusing"

    def applies(self, move: Move) -> bool:
        """Always: it stands last in the table."""
        return True

    def plan(self, move: Move, machine: Machine) -> Plan:
        """Raises CannotTake."""
        raise CannotTake(refusal(move))


def refusal(move: Move, system: str = sys.platform) -> str:
    """Why this owner is left alone, and what to do. ``system``: as sys.platform has it."""
    serve = _SERVE_ON_WINDOWS if system == "win32" else _SERVE
    text = _SENTENCES.get(move.owner.kind, _SENTENCES["unknown"])
    what = {"ollama": "Ollama", "lmstudio": "LM Studio"}.get(move.kind, move.kind)
    return text.format(
        usual=move.usual, moved=move.moved, host=HOST, who=move.owner.told(), what=what,
        unit=move.owner.unit or "NAME", user=move.owner.user or "its owner",
        serve=serve.format(host=HOST, moved=move.moved),
    )  # fmt: skip


_SENTENCES: dict[OwnerKind, str] = {
    "container": (
        "Port {usual} is published by a container ({who}), which pairproxy does not restart: it cannot know "
        "how it was made. Make it again with `-p {host}:{moved}:{usual}` in place of its port option (in a "
        'compose file: ports: ["{host}:{moved}:{usual}"]). ' + _AGAIN
    ),
    "snap": (
        "Port {usual} is held by the snap {unit} ({who}), which has a setting of its own. Run "
        "`sudo snap set {unit} host={host}:{moved}` and `sudo snap restart {unit}`. " + _AGAIN
    ),
    "terminal": (
        "{what} was started by hand: {who}. If pairproxy ended it, nobody would start it again. Stop it "
        "there, and start it with {serve}. " + _AGAIN
    ),
    "other-user": (
        "Port {usual} is held by a program of another user ({who}), which pairproxy may not move. Ask {user} "
        "to run `pairproxy takeover`, or to start the engine with OLLAMA_HOST={host}:{moved}. " + _AGAIN
    ),
    "pairproxy": (
        "Port {usual} is held by another pairproxy ({who}), with another home. Stop that one, or use it."
    ),
    "homebrew": (
        "{what} runs as a service of Homebrew ({who}). Write `OLLAMA_HOST={host}:{moved}` into "
        "~/.homebrew/services/ollama.env (Homebrew 6.0.15 or later) and run `brew services restart ollama`. "
        + _AGAIN
    ),
    "windows-service": (
        "{what} runs as a Windows service ({who}), which has an environment of its own. Set "
        "OLLAMA_HOST={host}:{moved} there (with NSSM: `nssm edit {unit}`) and restart it. " + _AGAIN
    ),
    "app": (
        "{what} runs as an app ({who}), which pairproxy cannot move on this system. Start it with "
        "OLLAMA_HOST={host}:{moved} in its environment. " + _AGAIN
    ),
    "systemd": (
        "Port {usual} is held by {who}, which is not the unit of {what} that pairproxy knows how to move. "
        "Have it listen on {host}:{moved}. " + _AGAIN
    ),
    "unknown": (
        "Port {usual} is held by {who}, of which pairproxy does not know how it was started, so it is left "
        "alone. If it is {what}, have it listen on {host}:{moved}. " + _AGAIN
    ),
}
_SENTENCES["systemd-user"] = _SENTENCES["systemd"]
