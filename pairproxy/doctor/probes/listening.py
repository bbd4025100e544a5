"""Who listens where on this machine, as the system tells."""

import ipaddress
import socket
from collections.abc import Iterable

import psutil

from pairproxy.doctor.facts import Listener, Unknown
from pairproxy.peers.own_addresses import snapshot, usable

MOST = 4096  # sockets; a machine with so many listening ones is no person's
MOST_TRIED = 8  # addresses of this machine
TRY_S = 0.3  # for each; the machine itself answers in less than a millisecond


def listeners() -> tuple[Listener, ...] | Unknown:
    """Every listening TCP socket, once for each address and port."""
    try:
        found = psutil.net_connections(kind="tcp")
    except (psutil.Error, OSError):
        return Unknown("this system shows the listening sockets of all programs to its administrator only")
    listening = [one for one in found if one.status == psutil.CONN_LISTEN][:MOST]
    names = {pid: _name(pid) for pid in {one.pid for one in listening} if pid is not None}
    told = (
        Listener(str(one.laddr.ip), int(one.laddr.port), one.pid, names.get(one.pid, "")) for one in listening
    )
    return tuple(dict.fromkeys(told))


def _name(pid: int) -> str:
    try:
        return str(psutil.Process(pid).name())
    except (psutil.Error, OSError):
        return ""


def outside(found: Iterable[Listener], port: int) -> list[Listener]:
    """Those on ``port`` that other machines may reach."""
    return [one for one in found if one.port == port and not _is_loopback(one.host)]


def reached(ports: Iterable[int]) -> tuple[Listener, ...]:
    """The same by trying, where the system does not show it: at each address of this machine."""
    own = sorted({one.address for one in usable(snapshot())})[:MOST_TRIED]
    return tuple(Listener(host, port) for port in ports for host in own if _answers(host, port))


def _answers(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), TRY_S):
            return True
    except OSError:
        return False


def _is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)
