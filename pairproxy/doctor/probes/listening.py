"""Who listens where on this machine, as the system tells."""

import ipaddress
import socket
from collections.abc import Iterable

import psutil

from pairproxy.doctor.facts import Listener, Unknown

MOST = 4096  # sockets; a machine with so many listening ones is no person's


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


def answers(host: str, port: int, timeout_s: float = 0.5) -> bool:
    """Whether somebody takes connections there."""
    try:
        with socket.create_connection((host, port), timeout_s):
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
