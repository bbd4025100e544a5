"""A link or a node breaks in mid-burst: what clients see, what is lost, how long until it is noticed."""

import signal
import time
from collections.abc import Callable

import pytest

from tests.lan.conftest import Figure, Network
from tests.support.lan_bursts import SLACK, Burst, at_rest, until_back, until_gone
from tests.support.lan_nodes import LanDaemons, LanNode, lan_settings

Told = Callable[[Figure], None]
FAST_S = 0.5  # heartbeat: lost after 2.5 s
REAL_S = 1.0  # the heartbeat that everybody has: lost after 5 s


def trio(network: Network, heartbeat_s: float = FAST_S) -> tuple[LanDaemons, list[LanNode]]:
    """Three equal nodes of two slots, paired and connected over the LAN."""
    names = ("anna", "ben", "cara")
    daemons = network(*names)
    for name in names:
        daemons.home(name, lan_settings(heartbeat_s=heartbeat_s, paced={"beta": 0.5}, slots=2))
    daemons.pair(*names)
    nodes = daemons.begin(*names)
    daemons.until_connected()
    return daemons, nodes


def on_all(anna: LanNode, ben: LanNode, cara: LanNode, tokens: int = 150) -> Burst:
    """A burst of anna's: on each node one reply that is streamed and one in one piece; three wait."""
    burst = Burst(anna, "burst", tokens).send(3)
    burst.until_runs_on(ben, cara)
    return burst.send(6, stream=False)


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


FAULTS = {
    "F10 link cut in silence": (cut, REAL_S),
    "F10 cable pulled": (unplug, FAST_S),
    "F10 silent partition": (partition, FAST_S),
    "F8 F9 SIGSTOP of a node": (freeze, FAST_S),
    "F6 F21 kill -9 of a node": (kill, FAST_S),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", FAULTS)
def test_a_node_is_lost_in_the_middle_of_a_burst(network: Network, told: Told, what: str) -> None:
    """What had no first byte is answered by others, the rest ends honestly, and the node comes back."""
    break_it, heartbeat_s = FAULTS[what]
    daemons, (anna, ben, cara) = trio(network, heartbeat_s)
    burst = on_all(anna, ben, cara)
    began_at = time.monotonic()
    break_it(daemons, ben)
    noticed_s = until_gone(anna, ben, began_at)
    seen = burst.seen()
    told(Figure(what, seen.asked, seen.whole, seen.broken, seen.lost, noticed_s))
    assert seen.lost == 0
    assert seen.broken == 1, "what ben was writing, and nothing else"
    assert noticed_s <= SLACK * 6 * heartbeat_s
    at_rest(anna, cara)
    if break_it is kill:
        return
    mended(daemons, ben)
    until_back(anna, ben, time.monotonic())
    at_rest(anna, ben, cara)
    after = Burst(anna, "after", tokens=60).send(6)
    after.until_runs_on(ben)
    assert after.seen().whole == 6


@pytest.mark.slow
def test_one_direction_is_lost_in_the_middle_of_a_burst(network: Network, told: Told) -> None:
    """F40: nothing of ben's arrives at anna any more, though ben hears her; each acts on what it hears."""
    daemons, (anna, ben, cara) = trio(network)
    burst = on_all(anna, ben, cara)
    began_at = time.monotonic()
    daemons.lan.block(ben.here, anna.here)
    noticed_s = until_gone(anna, ben, began_at)
    assert cara.view_of(ben).is_up, "cara hears both"
    seen = burst.seen()
    told(Figure("F40 one-way partition", seen.asked, seen.whole, seen.broken, seen.lost, noticed_s))
    assert seen.lost == 0
    assert seen.broken == 1
    theirs = Burst(ben, "theirs", tokens=60).send(3)
    assert theirs.seen().whole == 3, "ben works on, with cara or alone"
    daemons.lan.heal()
    until_back(anna, ben, time.monotonic())
    until_back(ben, anna, time.monotonic())
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
    told(Figure("kill -9 of an origin (noticed: slots free)", 9, 0, burst.broken_off(), 0, freed_s))
    assert freed_s <= SLACK * 6 * FAST_S
    again = daemons.begin("anna")[0]
    until_back(ben, again, time.monotonic())
    daemons.until_connected(again)
    after = Burst(again, "after", tokens=60).send(6)
    after.until_runs_on(ben, cara)
    assert after.seen().whole == 6
