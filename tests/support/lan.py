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
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self

from tests.support.lan_host import MESSAGE_BYTES, Host, LanError, Room

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
    return lacking(f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def lacking(path: str) -> str | None:
    """Which packages are missing where programs are looked for in ``path``, as a sentence."""
    packages = [package for program, package in PROGRAMS.items() if not shutil.which(program, path=path)]
    return f"a LAN needs the packages {' and '.join(packages)}" if packages else None


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


class Nursery:
    """The process that makes LANs, one after another or several at once; a context manager.

    What it imports need not be imported by programs of ours in hosts, which are forked from it.
    """

    def __init__(self, *modules: str) -> None:
        self._modules = modules
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the process; it is asked as soon as it is ready."""
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(KEEPER), *self._modules],
                stdin=theirs.fileno(),
                start_new_session=True,  # Ctrl-C is the test's
            )

    def stop(self) -> None:
        """End it; the LANs that it made end with it."""
        if self._process is not None:
            self._control.close()
            self._process.wait(END_S)
            self._process = None

    def ask(self, order: Mapping[str, object], given: Sequence[int]) -> None:
        """Have a LAN made. Raises LanError if the process is gone."""
        try:
            socket.send_fds(self._control, [json.dumps(order).encode()], given)
        except OSError as error:
            raise LanError(f"the nursery is gone: {error.strerror}") from None


class Lan:
    """The switch and its hosts, in the order of ``names``: 10.77.0.1, 10.77.0.2 and so on."""

    def __init__(
        self, names: Sequence[str], *, has_ipv4: bool = True, nursery: "Nursery | None" = None
    ) -> None:
        """``nursery``: whoever makes it; None: one of its own, which has imported nothing."""
        self._names = list(names)
        self._has_ipv4 = has_ipv4
        self._nursery = nursery or Nursery()
        self._owns_nursery = nursery is None
        self._life: socket.socket | None = None
        self._keeper = 0
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
            if self._owns_nursery:
                self._nursery.start()
            rooms = self._make_rooms()
            self.switch = rooms.pop(SWITCH)
            if self._names:
                self._wire(rooms)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Kill what runs inside, and with it everything there is."""
        life, self._life = self._life, None
        if life is not None:
            with life:
                life.shutdown(socket.SHUT_WR)
                life.settimeout(END_S)
                try:
                    life.recv(1)  # nothing: the keeper has ended, and with it all
                except TimeoutError:
                    os.kill(self._keeper, signal.SIGKILL)  # the kernel kills the rooms, and what they started
            for room in (*self.hosts, self.switch):
                room.close()
        if self._owns_nursery:
            self._nursery.stop()

    def _make_rooms(self) -> dict[str, Room]:
        names = (SWITCH, *self._names)
        life, *doors = pairs = [
            socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in ("", *names)
        ]
        try:
            self._nursery.ask(
                {"names": names, "has_own_users": os.geteuid() != 0}, [theirs.fileno() for _, theirs in pairs]
            )
        finally:
            for _, theirs in pairs:
                theirs.close()
        answer = json.loads(life[0].recv(MESSAGE_BYTES) or b'{"error": "the keeper died"}')
        if "error" in answer:
            for own, _ in pairs:
                own.close()
            raise LanError(answer["error"])
        self._life, self._keeper = life[0], answer["keeper"]
        return {
            name: Room(name, answer["rooms"][name], own) for name, (own, _) in zip(names, doors, strict=True)
        }

    def _wire(self, rooms: dict[str, Room]) -> None:
        self._make_bridge("br0")
        for number, room in enumerate(rooms.values(), start=1):
            self.hosts.append(Host(room, number, f"{NETWORK}.{number}", self.switch.ip))
        self.switch.ip("link set lo up", *(line for host in self.hosts for line in _card(host)))
        # The switch itself is nobody on the LAN: it must not speak IPv6.
        self.switch.run(
            "sh", "-c", "for one in /proc/sys/net/ipv6/conf/*/disable_ipv6; do echo 1 > $one; done"
        )
        for host in self.hosts:
            self.set_up(host)

    def set_up(self, host: Host) -> None:
        """Bring its card up, with its address."""
        # No wait for duplicate addresses: link-local ones would come a second late.
        host.run("sh", "-c", "for one in /proc/sys/net/ipv6/conf/*/accept_dad; do echo 0 > $one; done")
        addresses = [
            f"addr add {host.address}/24 brd + dev eth0",
            f"route add default via {NETWORK}.254 dev eth0 onlink",
        ]
        host.ip("link set lo up", "link set eth0 up", *(addresses if self._has_ipv4 else []))

    def pull_card(self, host: Host) -> None:
        """The network card is gone, as with a docking station."""
        self.switch.ip(f"link del {host.port}")

    def push_card(self, host: Host) -> None:
        """The card again, another one to the kernel, with the address that it had."""
        self.switch.ip(*_card(host))
        self.set_up(host)

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

    def lose(self, percent: int) -> None:
        """So many of a hundred frames between hosts vanish, at random, as on a bad radio link."""
        self.filter(f"numgen random mod 100 < {percent} drop")

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


def _card(host: Host) -> list[str]:
    """Lines of ``ip`` in the switch: a network card for the host, and its cable in the switch."""
    hardware = f"02:00:00:00:00:{host.number:02x}"
    return [
        f"link add {host.port} type veth peer name eth0 address {hardware} netns {host.pid}",
        f"link set {host.port} master br0 up",
    ]
