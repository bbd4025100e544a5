"""What OLLAMA_HOST means: the address that Ollama listens at, and its clients ask, when it has this value.

By the rules of Ollama's envconfig.Host (v0.33), which is lenient: scheme, port and host may each be missing.
"""

import ipaddress
from dataclasses import dataclass

from pairproxy.config import is_loopback

VARIABLE = "OLLAMA_HOST"
USUAL = "127.0.0.1:11434"
_PORTS = {"http": "80", "https": "443"}  # where a scheme is written and no port; without either it is 11434
_MOST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Address:
    """``host`` may be a name, an address, or "" (all addresses of the machine)."""

    host: str
    port: int

    @property
    def is_exposed(self) -> bool:
        """Whether a server that listens there is reached from other machines."""
        return not is_loopback(self.host)

    @property
    def is_here(self) -> bool:
        """Whether a client that asks there asks this machine: one cannot connect to "all addresses"."""
        return is_loopback(self.host) or is_wildcard(self.host)


def read(value: str) -> Address:
    """The address that a value stands for; the empty one is the usual."""
    scheme, separator, rest = value.strip().strip("\"'").strip().partition("://")
    if not separator:
        scheme, rest = "", scheme
    usual_port = _PORTS.get(scheme, "11434")
    host, port = _split(rest.partition("/")[0], usual_port)
    is_port = port.isascii() and port.isdigit() and int(port) <= _MOST_PORT
    return Address(host, int(port if is_port else usual_port))


def is_wildcard(host: str) -> bool:
    """Whether a server at this address listens on every address of its machine."""
    try:
        return not host or ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def _split(text: str, usual_port: str) -> tuple[str, str]:
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        return (host, rest[1:]) if closed and rest.startswith(":") else (host or "127.0.0.1", usual_port)
    if text.count(":") == 1:
        host, _, port = text.partition(":")
        return host, port
    return text or "127.0.0.1", usual_port
