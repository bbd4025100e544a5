import json

import msgspec
import pytest

from pairproxy.api import commands

DOCUMENTS = [
    commands.Peers(
        True,
        (commands.Peer("ben", "N", "id", None, None, None, None, True, False, 2, ("q*",), 1),),
        {"X": "old"},
    ),
    commands.InForce("ben", "N", True, True, None, (), False),
    commands.Forgot("ben", "N", False),
    commands.Offered("4821-9376", 120.0, ("10.0.0.7:4711",), True),
    commands.Paired("ben", "N", True, True, None, (), ("10.0.0.7",), False, True, True, None, None),
    commands.Takeover(
        False,
        (commands.PlannedPort("ollama", 11434, 11534, "take", "Held.", "ollama (pid 7)", ("run: x",)),),
        (commands.MovedPort("ollama", None, 1.5, ("A note.",)),),
    ),
    commands.Release(True, ()),
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: type(document).__name__)
def test_it_comes_back_as_it_was(document: msgspec.Struct) -> None:
    """Whoever reads what a command printed can use the same types, also on what a newer one printed."""
    grown = {**json.loads(msgspec.json.encode(document)), "something_new": 1}
    assert msgspec.json.decode(json.dumps(grown), type=type(document)) == document


def test_every_document_names_its_command() -> None:
    """In its docstring, which is published."""
    names = {type(one) for one in DOCUMENTS}
    assert all("`pairproxy " in (kind.__doc__ or "") for kind in names)
