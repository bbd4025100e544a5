"""A LAN on one machine: hosts that are namespaces, a switch between them, and all that can happen to it.

    with Lan(["anna", "ben"]) as lan:
        lan["anna"].run("ping", "-c1", lan["ben"].address)
        lan["ben"].cut()

Each host is a network of its own with its own name, ``/run`` and addresses; the switch is one more, with a
bridge. Nothing of the machine's own network is touched, and nothing is left after the block, however it ends.
Runs as root, or as anybody where the kernel lets them make user namespaces: ``missing()`` says what is not
there. Needs Linux, iproute2 and nftables.
"""

import functools
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.support.lan_host import Host, LanError, Room

KEEPER = Path(__file__).with_name("lan_keeper.py")
PRELOADED = ("pairproxy.cli.up", "pairproxy.daemon", "uvloop")
END_S = 10.0
PROGRAMS = {"ip": "iproute2", "nft": "nftables"}  # and the Debian package that has it
SWITCH = "switch"
NETWORK = "10.77.0"


@functools.cache
def missing() -> str | None:
    """Why there can be no LAN here, as a sentence; None if there can."""
    if sys.platform != "linux":
        return "a LAN of network namespaces needs Linux"
    if reason := _kernel_refuses():
        return reason
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    lacking = [package for program, package in PROGRAMS.items() if not shutil.which(program, path=path)]
    return f"a LAN needs the packages {' and '.join(lacking)}" if lacking else None


@functools.cache
def is_capable() -> bool:
    """Whether the kernel lets this user make namespaces: then what is missing can be installed."""
    return sys.platform == "linux" and _kernel_refuses() is None


def _kernel_refuses() -> str | None:
    lan = Lan([])
    try:
        lan.start()
    except LanError as error:
        return f"the kernel lets this user make no network namespaces ({error})"
    lan.stop()
    return None


class Lan:
    """The switch and its hosts, in the order of ``names``: 10.77.0.1, 10.77.0.2 and so on."""

    def __init__(self, names: Sequence[str], *, has_ipv4: bool = True, preload: Sequence[str] = ()) -> None:
        """``preload``: modules that are imported once, for all programs of ours that are started in hosts."""
        self._names = list(names)
        self._has_ipv4 = has_ipv4
        self._preload = list(preload)
        self._keeper: subprocess.Popen[str] | None = None
        self._bridges: set[str] = set()
        self.hosts: list[Host] = []
        self.switch: Room

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __getitem__(self, name: str) -> Host:
        return next(host for host in self.hosts if host.name == name)

    def start(self) -> None:
        """Make it. Raises LanError, and leaves nothing behind."""
        try:
            rooms = self._make_rooms()
            self.switch = rooms.pop(SWITCH)
            if self._names:
                self._wire(rooms)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Kill what runs inside, and with it everything there is."""
        keeper, self._keeper = self._keeper, None
        if keeper is None:
            return
        assert keeper.stdin is not None
        assert keeper.stdout is not None
        with suppress(BrokenPipeError):
            keeper.stdin.close()
        try:
            keeper.wait(END_S)
        except subprocess.TimeoutExpired:
            keeper.kill()  # the kernel kills the rooms then, and what they started
            keeper.wait()
        keeper.stdout.close()
        for room in (*self.hosts, *([self.switch] if hasattr(self, "switch") else [])):
            room.close()

    def _make_rooms(self) -> dict[str, Room]:
        doors = {
            name: socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for name in (SWITCH, *self._names)
        }
        theirs = {name: pair[1] for name, pair in doors.items()}
        self._keeper = keeper = subprocess.Popen(
            [sys.executable, "-P", str(KEEPER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=[door.fileno() for door in theirs.values()],
            start_new_session=True,  # Ctrl-C is the test's
        )
        order = {
            "doors": {name: door.fileno() for name, door in theirs.items()},
            "has_own_users": os.geteuid() != 0,
            "preload": self._preload,
        }
        assert keeper.stdin is not None
        assert keeper.stdout is not None
        print(json.dumps(order), file=keeper.stdin, flush=True)
        answer = json.loads(keeper.stdout.readline() or '{"error": "the keeper died"}')
        for door in theirs.values():
            door.close()
        if "error" in answer:
            for own, _ in doors.values():
                own.close()
            raise LanError(answer["error"])
        return {name: Room(name, answer["rooms"][name], doors[name][0]) for name in doors}

    def _wire(self, rooms: dict[str, Room]) -> None:
        self._make_bridge("br0")
        lines = ["link set lo up"]
        for number, room in enumerate(rooms.values(), start=1):
            host = Host(room, number, f"{NETWORK}.{number}", self.switch.ip)
            self.hosts.append(host)
            hardware = f"02:00:00:00:00:{number:02x}"
            lines += [
                f"link add {host.port} type veth peer name eth0 address {hardware} netns {host.pid}",
                f"link set {host.port} master br0 up",
            ]
        self.switch.ip(*lines)
        # The switch itself is nobody on the LAN: it must not speak IPv6.
        self.switch.run(
            "sh", "-c", "for one in /proc/sys/net/ipv6/conf/*/disable_ipv6; do echo 1 > $one; done"
        )
        for host in self.hosts:
            self._set_up(host)

    def _set_up(self, host: Host) -> None:
        # No wait for duplicate addresses: link-local ones would come a second late.
        host.run("sh", "-c", "for one in /proc/sys/net/ipv6/conf/*/accept_dad; do echo 0 > $one; done")
        addresses = [
            f"addr add {host.address}/24 brd + dev eth0",
            f"route add default via {NETWORK}.254 dev eth0 onlink",
        ]
        lines = ["link set lo up", "link set eth0 up"]
        host.ip(*lines, *(addresses if self._has_ipv4 else []))

    # --- what happens to it -----------------------------------------------------------------------------

    def partition(self, *groups: Iterable[Host]) -> None:
        """Each group on a bridge of its own; nobody sees a carrier go."""
        for number, group in enumerate(groups):
            bridge = f"br{number}"
            self._make_bridge(bridge)
            for host in group:
                host.heal(bridge)

    def heal(self) -> None:
        """Everybody on one bridge again, and no filter."""
        for host in self.hosts:
            host.heal()
        self.filter()

    def filter(self, *rules: str) -> None:
        """Rules of nft for frames between hosts, the only ones; none: everything passes."""
        body = "\n".join(rules)
        self.switch.run(
            "nft",
            "-f",
            "-",
            text="table bridge lan\ndelete table bridge lan\ntable bridge lan { chain between {\n"
            f"type filter hook forward priority 0; policy accept;\n{body}\n}}\n}}\n",
        )

    def block(self, sender: Host, receiver: Host) -> None:
        """Nothing that one sends reaches the other any more; the way back is open."""
        self.filter(f'iifname "{sender.port}" oifname "{receiver.port}" drop')

    def block_multicast(self) -> None:
        """Unicast and ARP only, as some access points and every VPN; IPv6 finds its neighbours still."""
        self.filter(
            "ether daddr & ff:ff:ff:00:00:00 != 33:33:ff:00:00:00 "
            "ether daddr & 01:00:00:00:00:00 == 01:00:00:00:00:00 ether daddr != ff:ff:ff:ff:ff:ff drop"
        )

    def add_interface(self, host: Host, name: str, address: str, bridge: str) -> None:
        """One more network card: ``address`` (10.88.0.1/24) on another bridge of the switch."""
        self._make_bridge(bridge)
        port = f"{bridge}p{host.number}"
        self.switch.ip(
            f"link add {port} type veth peer name {name} netns {host.pid}",
            f"link set {port} master {bridge} up",
        )
        host.ip(f"addr add {address} brd + dev {name}", f"link set {name} up")

    def forwarded(self) -> int:
        """How many packets hosts have sent into the switch so far."""
        return sum(self.switch.packets(host.port)[0] for host in self.hosts)

    def _make_bridge(self, name: str) -> None:
        if name not in self._bridges:
            self._bridges.add(name)
            kind = "type bridge forward_delay 0 stp_state 0 mcast_snooping 0"
            self.switch.ip(f"link add {name} {kind}", f"link set {name} up")
