import msgspec

from pairproxy.api.offering import OfferStatus
from pairproxy.api.ports import PortStatus
from pairproxy.tui.notes import notes
from tests.support.statuses import A, B, C, engine, node, status


def test_it_says_why_an_engine_offers_less_than_it_has() -> None:
    """Whoever plays on it should not wonder; and nothing is said of an engine that offers all."""
    taken = msgspec.structs.replace(engine(2), foreign=1)
    (line,) = notes(status(node(A, "desk", taken, engine(2, 0, "b"))))
    assert line.startswith("desk: gpu is slower than usual, so it is given 1 slot less")


def test_a_network_of_many_does_not_fill_the_screen() -> None:
    """The first eight that are seen and not paired; the rest are counted."""
    seen = [f"NODE{number:04}" for number in range(60)]
    shown = [f"NODE-{number:04}" for number in range(8)]
    (line,) = notes(status(node(), unpaired=dict.fromkeys(seen, "")))
    assert line == f"seen, not paired: {', '.join(shown)} and 52 more"
    (line,) = notes(status(node(), unpaired=dict.fromkeys(seen[:8], "")))
    assert line.endswith("NODE-0007")
    others = {"NODE0001": "10.0.0.7:11634", "NODE0002": "needs update"}
    (line,) = notes(status(node(), unpaired=others))
    assert line == "seen, not paired: NODE-0001, NODE-0002 (needs update)"


def test_it_says_why_peers_get_nothing_here_and_what_peers_withhold() -> None:
    """Each in one line, what runs on included; of a peer that is down only that is told."""
    offer = OfferStatus(withheld="drained", why="It is drained.", since_unix=100.0, guests=2)
    box = msgspec.structs.replace(node(B, "box"), withheld="owner", withheld_why="its owner is using it")
    away = msgspec.structs.replace(box, node=C, name="away", is_up=False)
    assert notes(status(node(), box, away, offer=offer, at_unix=400.0)) == [
        "peers get no slot here for 300 s now: It is drained. 2 requests of theirs still under way.",
        "box offers nothing: its owner is using it",
    ]


def test_why_a_port_does_not_answer_is_told() -> None:
    """Who has it and what to do; nothing of one that is open."""
    held = PortStatus("ollama", 11434, "held", holder="ollama (pid 7)", why="Port 11434 is held by ollama.")
    opened = PortStatus("lmstudio", 1234, "open", ("127.0.0.1",))
    assert notes(status(node(), ports=(held, opened))) == ["Port 11434 is held by ollama."]


def test_why_a_peer_is_down_is_told() -> None:
    """In one line, without what could steer a terminal."""
    found = status(
        node(), node(B, "up", problem="old"), node(C, "\x1bbox", is_up=False, problem="it was stopped")
    )
    assert notes(found) == ["box is down: it was stopped"]


def test_it_says_when_the_daemon_was_held_up() -> None:
    """Too busy a machine looks like a node that comes and goes; a moment of it is not worth a line."""
    (line,) = notes(status(node(), loop_lag_s=2.5))
    assert line == "pairproxy was held up for 2.5 s within the last minute; its log says by what"
    assert notes(status(node(), loop_lag_s=0.2)) == []


def test_the_rest_that_must_be_known() -> None:
    """Models that differ, discovery, history, draining."""
    differs = msgspec.structs.replace(node(B, "box"), models_differ=("m:1b",))
    said = notes(
        status(
            node(), differs, discovery_problem="no multicast", history_problem="disk full", is_draining=True
        )
    )
    assert [line.partition(":")[0] for line in said] == [
        "This node is draining",
        "history",
        "models differ on box",
        "discovery",
    ]
