"""What is judged: facts -> findings. CHECKS is all of it, in the order in which it is told.

daemon service ports engines clients models peers network files machine
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from pairproxy.api.diagnosis import Finding
from pairproxy.doctor.checks import (
    clients,
    daemon,
    engines,
    files,
    machine,
    models,
    network,
    peers,
    ports,
    service,
)
from pairproxy.doctor.facts import Facts


class Check(NamedTuple):
    """``looks_at``: in words; ``needs``: the facts without which nothing can be said."""

    looks_at: str
    find: Callable[[Facts], Iterator[Finding]]
    needs: tuple[str, ...] = ()


CHECKS = (
    Check("daemon", daemon.runs),
    Check("service", service.works, ("services",)),
    Check("what is offered to peers", daemon.offers, ("status",)),
    Check("version", daemon.is_of_this_version, ("status",)),
    Check("event loop", daemon.is_in_time, ("status",)),
    Check("descriptors", daemon.may_open_files, ("process",)),
    Check("client ports", ports.are_ours, ("status",)),
    Check("who else listens there", ports.have_no_stranger_beside, ("listeners", "status")),
    Check("takeover", ports.takeover_holds),
    Check("engines", engines.answer, ("engines",)),
    Check("engine versions", engines.have_no_known_hole, ("engines",)),
    Check("engines seen from outside", engines.are_shut, ("engines",)),
    Check("slots", engines.have_their_slots, ("engines",)),
    Check("clients' variables", clients.are_not_led_past, ("surroundings",)),
    Check("models", models.are_the_same, ("models",)),
    Check("context windows", models.have_one_window, ("models",)),
    Check("pairings", peers.can_be_read),
    Check("peers", peers.are_reached, ("status",)),
    Check("the way back from peers", peers.reach_us, ("status", "peers")),
    Check("clocks", peers.agree_on_the_time, ("status",)),
    Check("peers' versions", peers.are_of_one_version, ("status",)),
    Check("multicast", network.carries_multicast, ("status", "cards", "settings")),
    Check("discovery", network.is_looked_for, ("status",)),
    Check("firewall", network.lets_peers_in, ("firewall",)),
    Check("settings", files.are_settings),
    Check("file modes", files.are_private, ("files",)),
    Check("disk", files.have_room, ("places",)),
    Check("history", daemon.keeps_history, ("history_problem",)),
    Check("compiled parts", machine.is_compiled),
    Check("speed of what is installed", machine.is_optimised),
    Check("WSL", machine.can_be_reached),
)
