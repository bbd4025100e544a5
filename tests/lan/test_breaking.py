"""A link or a node breaks in mid-burst: what clients see, what is lost, how long until it is noticed."""

import signal
import time
from typing import Any

import pytest

from tests.lan.conftest import FAST_S, Figure, Network, Told
from tests.support.daemons import until
from tests.support.lan_bursts import SLACK, Burst, at_rest, until_back, until_gone, until_used
from tests.support.lan_nodes import LanDaemons, LanNode, lan_settings

REAL_S = 1.0  # the heartbeat that everybody has: lost after 5 s


def trio(network: Network, heartbeat_s: float = FAST_S, **sections: Any) -> tuple[LanDaemons, list[LanNode]]:
    """Three equal nodes of one slot, paired and connected over the LAN."""
    names = ("anna", "ben", "cara")
    daemons = network(*names)
    for name in names:
        daemons.home(name, lan_settings(heartbeat_s=heartbeat_s, slots=1, **sections))
    daemons.pair(*names)
    nodes = daemons.begin(*names)
    daemons.until_connected()
    return daemons, nodes


def on_all(anna: LanNode, ben: LanNode, cara: LanNode, *, stream: bool = True, tokens: int = 80) -> Burst:
    """A burst of anna's: one reply under way on each node, streamed or not; three wait for it."""
    burst = Burst(anna, "burst").send(3, tokens=tokens, stream=stream)
    burst.until_runs_on(ben, cara, has_first_byte=stream)
    return burst.send(3, stream=not stream)


def cut(daemons: LanDaemons, ben: LanNode) -> None:
    """The link is dead and nobody is told."""
    ben.here.cut()


def unplug(daemons: LanDaemons, ben: LanNode) -> None:
    """The cable is out on ben's side."""
    ben.here.unplug()


def partition(daemons: LanDaemons, ben: LanNode) -> None:
    """The switch falls into two parts."""
    anna, other, cara = daemons.lan.hosts
    daemons.lan.partition([anna, cara], [other])


def freeze(daemons: LanDaemons, ben: LanNode) -> None:
    """The machine hangs; its kernel still answers."""
    ben.here.signal_all(signal.SIGSTOP)


def kill(daemons: LanDaemons, ben: LanNode) -> None:
    """The daemon dies at once."""
    ben.kill()


def mended(daemons: LanDaemons, ben: LanNode) -> None:
    """Undo any of these."""
    ben.here.plug()
    daemons.lan.heal()
    ben.here.signal_all(signal.SIGCONT)


STREAMED, WHOLE = True, False
FAULTS = {
    "F10 link cut in silence, streamed": (cut, STREAMED, REAL_S),
    "F10 cable pulled, not streamed": (unplug, WHOLE, FAST_S),
    "F10 silent partition, streamed": (partition, STREAMED, FAST_S),
    "F8 SIGSTOP of a node, not streamed": (freeze, WHOLE, FAST_S),
    "F9 SIGSTOP of a node, streamed": (freeze, STREAMED, FAST_S),
    "F7 kill -9 of a node, not streamed": (kill, WHOLE, FAST_S),
    "F6 F21 kill -9 of a node, streamed": (kill, STREAMED, FAST_S),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", FAULTS)
def test_a_node_is_lost_in_the_middle_of_a_burst(network: Network, told: Told, what: str) -> None:
    """What had no first byte is answered by others, the rest ends honestly, and the node comes back."""
    break_it, stream, heartbeat_s = FAULTS[what]
    daemons, (anna, ben, cara) = trio(network, heartbeat_s)
    burst = on_all(anna, ben, cara, stream=stream)
    began_at = time.monotonic()
    break_it(daemons, ben)
    noticed_s = until_gone(anna, ben, began_at)
    seen = burst.seen()
    told(Figure(what, seen.asked, seen.whole, seen.broken, seen.lost, noticed_s))
    assert seen.lost == 0
    assert seen.broken == (1 if stream else 0), "what ben was writing, and nothing else"
    assert noticed_s <= SLACK * 6 * heartbeat_s
    at_rest(anna, cara)
    if break_it is kill:
        return
    mended(daemons, ben)
    until_back(anna, ben, time.monotonic())
    until_used(anna, ben)
    at_rest(anna, ben, cara)


@pytest.mark.slow
@pytest.mark.parametrize("is_heard", [False, True], ids=["F40 from ben to anna", "F40 from anna to ben"])
def test_one_direction_is_lost_in_the_middle_of_a_burst(network: Network, told: Told, is_heard: bool) -> None:
    """F40: what one says does not arrive at the other, though the way back is open; both work on."""
    daemons, (anna, ben, cara) = trio(network)
    burst = on_all(anna, ben, cara, tokens=120)
    began_at = time.monotonic()
    if is_heard:
        daemons.lan.block(anna.here, ben.here)
    else:
        daemons.lan.block(ben.here, anna.here)
    noticed_s = until_gone(anna, ben, began_at)
    assert cara.view_of(ben).is_up, "cara hears both"
    seen = burst.seen()
    what = "F40 anna is not heard by ben" if is_heard else "F40 ben is not heard by anna"
    told(Figure(what, seen.asked, seen.whole, seen.broken, seen.lost, noticed_s))
    assert seen.lost == 0
    assert seen.broken <= 1, "what ben was writing, and nothing else"
    theirs = Burst(ben, "theirs").send(3)
    assert theirs.seen().whole == 3, "ben works on, with cara or alone"
    daemons.lan.heal()
    until_back(anna, ben, time.monotonic())
    until_back(ben, anna, time.monotonic())
    at_rest(anna, ben, cara)


@pytest.mark.slow
def test_a_lost_reply_goes_on_at_another_node(network: Network, told: Told) -> None:
    """F10 with routing.continuation: the reader of what ben was writing gets the whole of it, once."""
    _, (anna, ben, cara) = trio(network, routing={"continuation": True})
    until(
        lambda: all(goes_on(node) for node in (anna, ben, cara)), "every engine was seen to go on with a text"
    )
    burst = on_all(anna, ben, cara)
    began_at = time.monotonic()
    ben.here.cut()
    noticed_s = until_gone(anna, ben, began_at)
    seen = burst.seen()
    told(Figure("F10 link cut, continuation", seen.asked, seen.whole, seen.broken, seen.lost, noticed_s))
    assert seen.whole == 6
    at_rest(anna, cara)


def goes_on(node: LanNode) -> bool:
    """Whether a node knows of every engine, its own and its peers', that it goes on with a text."""
    engines = [engine for one in node.status().nodes for engine in one.engines]
    return all(replica.continues for engine in engines for replica in engine.replicas)


@pytest.mark.slow
def test_a_bad_radio_link_loses_no_request(network: Network, told: Told) -> None:
    """One packet in ten is lost, in both directions: slower, and nothing else."""
    daemons, (anna, ben, cara) = trio(network, REAL_S)
    daemons.lan.lose(10)
    burst = on_all(anna, ben, cara)
    seen = burst.seen()
    told(Figure("every tenth packet lost", seen.asked, seen.whole, seen.broken, seen.lost, None))
    assert seen.lost == 0
    daemons.lan.heal()
    until_used(anna, ben)
    at_rest(anna, ben, cara)


@pytest.mark.slow
def test_the_origin_is_killed_in_the_middle_of_a_burst(network: Network, told: Told) -> None:
    """F21: peers free their slots at once; the origin comes back under its name and is believed again."""
    daemons, (anna, ben, cara) = trio(network)
    burst = on_all(anna, ben, cara, tokens=300)
    began_at = time.monotonic()
    anna.kill()
    at_rest(ben, cara)
    freed_s = time.monotonic() - began_at
    told(Figure("kill -9 of an origin (noticed: slots free)", 6, 0, burst.broken_off(), 0, freed_s))
    assert freed_s <= SLACK * 6 * FAST_S
    again = daemons.begin("anna")[0]
    until_back(ben, again, time.monotonic())
    daemons.until_connected(again)
    until_used(again, ben)
    until_used(again, cara)
