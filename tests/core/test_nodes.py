import pytest

from pairproxy.core.nodes import (
    NodeTable,
)
from pairproxy.core.rules import STALE_S, Rules
from tests.core.told import B, C, M, Told, at, document


def test_an_older_document_of_the_same_life_is_ignored() -> None:
    """Two connections may deliver out of order; what is as old or newer counts."""
    table = NodeTable()
    assert table.report(document(B, sequence=5, slots=1), 0.0)
    assert not table.report(document(B, sequence=4, slots=2), 1.0)
    assert table.report(document(B, sequence=5, slots=3), 2.0)
    known = table.engine(at(B))
    assert known is not None
    assert (known[0].slots, known[1]) == (3, 2.0)


def test_a_new_life_begins_its_count_anew() -> None:
    """A daemon that was restarted is believed at once."""
    table = NodeTable()
    table.report(document(B, sequence=5000), 0.0)
    assert table.report(document(B, epoch="2", sequence=1), 1.0)


def test_a_node_is_healthy_until_it_was_silent_for_too_long() -> None:
    """At the very moment for which a wake-up was announced it no longer is, whatever the rounding."""
    table = NodeTable()
    heard_at = 0.1 + 0.2
    table.report(document(B), heard_at)
    stale_at = table.next_stale(heard_at)
    assert stale_at == heard_at + STALE_S
    assert [node.node for node in table.healthy(stale_at - 0.001)] == [B]
    assert list(table.healthy(stale_at)) == []
    assert table.next_stale(stale_at) is None
    assert table.age(B, stale_at) == pytest.approx(STALE_S)


def test_a_person_can_set_how_long_silence_is_borne() -> None:
    """The scheduler's rules say it."""
    told = Told(rules=Rules(stale_s=7.0))
    told.hears(document(B))
    assert told.scheduler.nodes.next_stale(0.0) == 7.0
    assert [node.node for node in told.scheduler.nodes.healthy(6.9)] == [B]


def test_a_draining_node_is_known_but_not_healthy() -> None:
    """It serves what it has, and gets nothing new."""
    table = NodeTable()
    table.report(document(B, draining=True), 0.0)
    assert list(table.healthy_replicas(M, 0.0)) == []
    assert list(table.identities(M)) == [B]


def test_a_lost_node_is_forgotten() -> None:
    """Nothing is known of it until it is heard again."""
    table = NodeTable()
    table.report(document(B), 0.0)
    table.report(document(C), 0.0)
    table.lose(B)
    table.lose(B)
    assert [told.node for told, _ in table.documents(1.0)] == [C]
    assert table.age(B, 1.0) is None
    assert table.engine(at(B)) is None
