"""A machine's network changes under its daemon: addresses, cards, paths and sleep."""

import signal
import time

import pytest

from tests.lan.conftest import Figure, Network, Told, couple, prepared
from tests.support.daemons import until
from tests.support.lan_bursts import Burst, at_rest, until_back, until_gone, until_used
from tests.support.lan_nodes import PEER_PORT, LanNode


@pytest.mark.slow
def test_a_new_address_is_found(network: Network, told: Told) -> None:
    """F26: after a change of address (DHCP) the node is reached at the new one, and works as before."""
    _, (anna, ben) = couple(network)
    burst = Burst(anna, "burst").send(2, tokens=100)
    burst.until_runs_on(ben)
    began_at = time.monotonic()
    ben.here.move_to("10.77.0.99")
    wanted = f"10.77.0.99:{PEER_PORT}"
    until(lambda: anna.view_of(ben).is_up and anna.view_of(ben).address == wanted, "ben at his new address")
    found_s = time.monotonic() - began_at
    seen = burst.seen()
    told(Figure("F26 new address (noticed: used)", seen.asked, seen.whole, seen.broken, seen.lost, found_s))
    assert seen.lost == 0
    assert seen.broken <= 1
    until_back(ben, anna, time.monotonic())
    until_used(anna, ben)
    at_rest(anna, ben)


@pytest.mark.slow
def test_two_machines_swap_their_addresses(network: Network, told: Told) -> None:
    """F23 F26: at each known address another paired machine answers; its key tells, nothing is mixed up."""
    _, (anna, ben, cara) = couple(network, "anna", "ben", "cara")
    of_ben, of_cara = ben.here.address, cara.here.address
    ben.here.move_to("10.77.0.200")
    cara.here.move_to(of_ben)
    ben.here.move_to(of_cara)
    began_at = time.monotonic()
    for node, address in ((ben, of_cara), (cara, of_ben)):
        wanted = (True, f"{address}:{PEER_PORT}")
        until(lambda: seen_by(anna, node) == wanted, f"{node.name} at {address}")  # noqa: B023
    told(Figure("F26 two swap addresses (noticed: used)", 0, 0, 0, 0, time.monotonic() - began_at))
    until_used(anna, ben)
    until_used(anna, cara)


def seen_by(observer: LanNode, node: LanNode) -> tuple[bool, str | None]:
    """Whether it is there, and at which address."""
    view = observer.view_of(node)
    return view.is_up, view.address


@pytest.mark.slow
def test_a_network_card_comes_back(network: Network, told: Told) -> None:
    """F26: another card under the same address, as in a dock; multicast groups of the old one are void."""
    daemons, (anna, ben) = couple(network)
    daemons.lan.pull_card(ben.here)
    until_gone(anna, ben, time.monotonic())
    daemons.lan.push_card(ben.here)
    began_at = time.monotonic()
    until_back(anna, ben, began_at)
    back_s = until_back(ben, anna, began_at)
    told(Figure("F26 card pulled and back (noticed: back)", 0, 0, 0, 0, back_s))
    until_used(ben, anna)


@pytest.mark.slow
def test_the_network_comes_after_the_daemon(network: Network, told: Told) -> None:
    """A machine that starts without a network says so, serves its clients, and meets its peer later."""
    daemons = prepared(network)
    host = daemons.lan["ben"]
    host.ip("addr flush dev eth0", "link set eth0 down")
    anna, ben = daemons.begin("anna", "ben")
    until(lambda: "no network" in (ben.status().discovery_problem or ""), "ben says that there is none")
    assert Burst(ben, "alone").send(2).seen().whole == 2
    daemons.lan.set_up(host)
    began_at = time.monotonic()
    until_back(anna, ben, began_at)
    met_s = until_back(ben, anna, began_at)
    told(Figure("network after the daemon (noticed: met)", 2, 2, 0, 0, met_s))


@pytest.mark.slow
def test_of_two_paths_one_dies(network: Network, told: Told) -> None:
    """F24 F27: a peer on two networks is one peer; when the path in use dies the other one is taken."""
    daemons = prepared(network)
    for host in daemons.lan.hosts:
        daemons.lan.add_interface(host, "eth1", f"10.88.0.{host.number}/24", "br9")
    anna, ben = daemons.begin("anna", "ben")
    daemons.until_connected()
    assert [len(node.status().nodes) for node in (anna, ben)] == [2, 2]
    burst = Burst(anna, "burst").send(2, tokens=100)
    burst.until_runs_on(ben)
    began_at, used = time.monotonic(), str(anna.view_of(ben).address)
    for host in (anna.here, ben.here):
        if used.startswith("10.77."):
            host.cut()
        else:
            daemons.lan.switch.ip(f"link set br9p{host.number} nomaster")
    until(lambda: anna.view_of(ben).is_up and anna.view_of(ben).address != used, "the other path is used")
    changed_s = time.monotonic() - began_at
    seen = burst.seen()
    told(Figure("F27 one of two paths dies", seen.asked, seen.whole, seen.broken, seen.lost, changed_s))
    assert seen.lost == 0
    assert seen.broken <= 1
    until_used(anna, ben)
    assert [len(node.status().nodes) for node in (anna, ben)] == [2, 2]


@pytest.mark.slow
def test_a_machine_sleeps_and_wakes(network: Network, told: Told) -> None:
    """F29: asleep it is missed, awake it is back within seconds on both sides; what was open ends once."""
    _, (anna, ben) = couple(network)
    theirs = Burst(ben, "theirs").send(2, tokens=100)
    theirs.until_runs_on(anna)
    ben.here.unplug()
    ben.here.signal_all(signal.SIGSTOP)
    until_gone(anna, ben, time.monotonic())
    at_rest(anna)
    woken_at = time.monotonic()
    ben.here.plug()
    ben.here.signal_all(signal.SIGCONT)
    back_s = until_back(anna, ben, woken_at)
    until_back(ben, anna, woken_at)
    seen = theirs.seen()
    told(Figure("F29 sleep (noticed: awake)", seen.asked, seen.whole, seen.broken, seen.lost, back_s))
    assert seen.lost == 0
    assert seen.broken <= 1
    until_used(anna, ben)
    until_used(ben, anna)
