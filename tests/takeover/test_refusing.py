from typing import get_args

import pytest

from pairproxy.takeover.machine import Machine
from pairproxy.takeover.moving import CannotTake, Move, Owner, OwnerKind
from pairproxy.takeover.refusing import Refusing, refusal
from pairproxy.takeover.running import Runner

SAYS = {
    "container": "-p 127.0.0.1:11534:11434",
    "snap": "sudo snap set box host=127.0.0.1:11534",
    "terminal": "OLLAMA_HOST=127.0.0.1:11534 ollama serve",
    "other-user": "Ask eve to run",
    "pairproxy": "another pairproxy",
    "homebrew": "brew services restart ollama",
    "windows-service": "nssm edit box",
}


def test_a_command_is_told_as_the_system_takes_it() -> None:
    """PowerShell knows no variable before a command."""
    move = Move("ollama", Owner("terminal", 11434, ("127.0.0.1",), 7, "ollama.exe"), 11434, 11534)
    assert "`$env:OLLAMA_HOST = '127.0.0.1:11534'; ollama serve`" in refusal(move, "win32")
    assert "`OLLAMA_HOST=127.0.0.1:11534 ollama serve`" in refusal(move, "darwin")


@pytest.mark.parametrize("kind", get_args(OwnerKind))
def test_every_owner_is_refused_with_what_to_do(kind: OwnerKind) -> None:
    """Who has the port, why it is left alone, and the command or setting by which a person goes on."""
    owner = Owner(kind, 11434, ("127.0.0.1",), 7, "ollama", "eve", "box")
    move = Move("ollama", owner, 11434, 11534)
    refusing = Refusing()
    assert refusing.applies(move)
    with pytest.raises(CannotTake) as error:
        refusing.plan(move, Machine(Runner()))
    assert "pid 7" in error.value.sentence
    assert SAYS.get(kind, "127.0.0.1:11534") in error.value.sentence
    assert "{" not in error.value.sentence
