"""Which of a node's lives is believed, where their documents come in another order than they were written."""

from pairproxy.core.nodes import NodeTable
from pairproxy.core.rules import STALE_S
from tests.core.told import B, document


def test_a_late_word_of_a_life_unknown_here_silences_the_present_one_for_a_moment_only() -> None:
    """As after a restart of both: the present life is heard again when the old one is stale."""
    table = NodeTable()
    assert table.report(document(B, epoch="2", sequence=6), 0.0)
    assert table.report(document(B, epoch="1", sequence=130), 0.5)
    assert not table.report(document(B, epoch="2", sequence=7), 1.0)
    assert table.report(document(B, epoch="2", sequence=9), 0.5 + STALE_S)
    assert not table.report(document(B, epoch="1", sequence=139), 1.0 + STALE_S)
    assert table.epoch(B) == "2"


def test_a_lost_node_is_believed_whatever_life_it_speaks_of() -> None:
    """What was taken for over is the only life that is heard."""
    table = NodeTable()
    for epoch in ("2", "1"):
        assert table.report(document(B, epoch=epoch, sequence=1), 0.0)
    table.lose(B)
    assert table.report(document(B, epoch="2", sequence=2), 1.0)
    assert table.epoch(B) == "2"
