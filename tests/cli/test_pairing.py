from pathlib import Path

import pytest

from pairproxy.cli.pairing import connection, namesakes
from pairproxy.core.models import NodeId
from pairproxy.peers.pairing import Report
from pairproxy.security.peer_record import PeerRecord
from tests.support.command import pairproxy
from tests.support.daemons import Daemons, settings, until
from tests.support.pairing import Command

NONE = Report(False)
UP, DOWN, NOT_TRIED = Report(True, True), Report(True, False), Report(True, None)


@pytest.mark.parametrize(
    ("mine", "theirs", "said"),
    [
        (UP, UP, ["in both directions"]),
        (NONE, NONE, ["on both machines"]),
        (NONE, None, ["on both machines"]),
        (NONE, NOT_TRIED, ["start `pairproxy up` on this machine"]),
        (NOT_TRIED, NONE, ["start `pairproxy up` on ben-ws"]),
        (DOWN, NONE, ["start `pairproxy up` on ben-ws"]),
        (UP, DOWN, ["This machine reaches ben-ws.", "TCP port 11634 in through this machine's firewall"]),
        (DOWN, UP, ["could not reach ben-ws", "ben-ws reaches this machine"]),
        (DOWN, DOWN, ["could not reach ben-ws", "ben-ws could not reach this machine"]),
        (UP, NOT_TRIED, ["This machine reaches ben-ws."]),
        (NOT_TRIED, UP, ["ben-ws reaches this machine."]),
        (UP, None, ["This machine reaches ben-ws.", "did not say"]),
    ],
)
def test_it_is_said_which_side_does_not_reach_which(
    mine: Report, theirs: Report | None, said: list[str]
) -> None:
    """One line a fact, and nothing that is not known."""
    lines = connection("ben-ws", 11634, mine, theirs)
    assert len(lines) == len(said)
    for line, part in zip(lines, said, strict=True):
        assert part in line


def test_an_older_pairing_of_the_same_name_is_named_with_what_to_do() -> None:
    """After reset-identity there: else the old one stays on the list as a machine that is never there."""
    old, new, other = (
        PeerRecord(NodeId(letter * 52), name, b"", may_use_me=True, i_may_use=True)
        for letter, name in (("A", "ben-ws"), ("B", "ben-ws"), ("C", "carl-ws"))
    )
    (line,) = namesakes(new, (old, new, other))
    assert line.endswith("pairproxy forget AAAA-AAAA")
    assert namesakes(other, (old, new, other)) == []


@pytest.mark.slow
def test_two_running_daemons_use_each_other_at_once(tmp_path: Path) -> None:
    """H01 in whole, found by mDNS: no restart, and both commands have seen that it works both ways."""
    with Daemons(tmp_path) as daemons:
        anna = daemons.home("anna", settings())
        ben = daemons.home("ben", settings())
        nodes = daemons.start("anna", "ben")
        with Command("pair", "--home", anna) as pair:
            joined = pairproxy("join", pair.code(), "--home", ben)
            assert joined.returncode == 0, joined.stderr
            assert pair.ended() == 0
        for said in (pair.said, joined.stdout):
            assert "The connection works in both directions." in said
        for node, other in (nodes, reversed(nodes)):
            until(lambda node=node, other=other: node.view_of(other).is_up, "they see each other")  # type: ignore[misc]


@pytest.mark.slow
def test_a_daemon_that_runs_on_one_side_only_is_told(tmp_path: Path) -> None:
    """The other side is told to start its own; the pairing is kept."""
    with Daemons(tmp_path) as daemons:
        anna = daemons.home("anna", settings())
        ben = daemons.home("ben", settings())
        daemons.start("anna")
        with Command("pair", "--home", anna) as pair:
            joined = pairproxy("join", pair.code(), "--at", pair.place(), "--home", ben)
            assert pair.ended() == 0
        assert "Now start `pairproxy up` on ben." in pair.said
        assert "Now start `pairproxy up` on this machine." in joined.stdout
        (node,) = daemons.start("ben")
        until(
            lambda: all(one.is_up for one in node.status().nodes) and len(node.status().nodes) == 2,
            "ben sees anna",
        )
