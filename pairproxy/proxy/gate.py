"""Host and Origin: a web page, or a name that a stranger's DNS points here, gets nothing.

Forwarding rewrites where a request comes from, so the engine's own checks would not see the page any
more; these stand in their place. Names: only this machine's own, fewer than Ollama takes (any host of the
LAN can claim a name under .local); at client ports also those by which containers call the machine that they
run on, since Docker Desktop brings what they send there to loopback, but from no page. Origins: Ollama's
default list (cors). A person may have told Ollama of more (OLLAMA_ORIGINS), which we cannot see, or LM Studio
of all: such an Origin goes no further than to the engine that knows.
"""

import re
import socket
from collections.abc import Mapping, Sequence

from pairproxy.config import is_loopback
from pairproxy.core.errors import BadRequest, NotAllowed
from pairproxy.proxy import cors

_HOST = re.compile(r"(?P<name>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?")

FROM_CONTAINERS = frozenset(("host.docker.internal", "gateway.docker.internal", "host.containers.internal"))
"""Docker's and Podman's names for the machine a container runs on. No public name ends in .internal."""
HOSTS = 64  # Host values whose name is remembered; a machine is called by a handful
HOST_BYTES = 128  # a longer one is not remembered


class Gate:
    """Checks requests to a loopback port."""

    def __init__(self, own_name: str | None = None) -> None:
        name = (own_name if own_name is not None else socket.gethostname()).lower()
        self._names = {"localhost"} | ({name, f"{name}.local"} if name else set())
        self._hosts: dict[str, tuple[str, bool]] = {}  # by Host: its name, and whether it is one of our own

    def check(
        self,
        hosts: Sequence[str],
        origins: Sequence[str],
        fetch_site: str | None,
        *,
        can_engine_judge: bool = False,
        knows_containers: bool = False,
        is_like_page: bool = False,
    ) -> bool:
        """Let a request in or raise; True: only for the engine of the port, which has to judge its Origin.

        ``hosts`` and ``origins`` are all values of these headers, ``fetch_site`` that of Sec-Fetch-Site.
        ``can_engine_judge``: that engine is asked about an Origin that is none of ours, as it came.
        ``knows_containers``: FROM_CONTAINERS are names of this machine, too, to who is no page.
        ``is_like_page``: it has the marks of a page that says nothing of itself (see is_like_page).
        Raises BadRequest for a Host that is missing, doubled or malformed, NotAllowed for a foreign one.
        """
        if len(hosts) != 1:
            raise BadRequest("A request needs exactly one Host header.")
        name, is_own = self._hosts.get(hosts[0]) or self._look_at(hosts[0])
        is_page = bool(origins) or fetch_site is not None or is_like_page
        is_container = knows_containers and name in FROM_CONTAINERS and not is_page
        if not (is_container or is_own):
            raise NotAllowed("This Host is not a name of this machine.")
        if len(origins) > 1:
            raise NotAllowed("A request has one Origin at most.")
        if origins:
            if cors.is_own(origins[0], hosts[0]) or cors.is_allowed(origins[0]):
                return False
            if can_engine_judge and cors.is_well_formed(origins[0]):
                return True
            raise NotAllowed("Pages of this Origin may not use this port.")
        if fetch_site in ("cross-site", "same-site"):
            raise NotAllowed("Pages of other sites may not use this port.")
        return False

    def _look_at(self, host: str) -> tuple[str, bool]:
        """Read a Host; one of our own only once, for all requests of a client say the same.

        Raises BadRequest.
        """
        name = _name_in(host)
        is_own = name in self._names or is_loopback(name)
        if is_own and len(self._hosts) < HOSTS and len(host) <= HOST_BYTES:
            self._hosts[host] = name, is_own
        return name, is_own


def is_like_page(method: str, fields: Mapping[str, str]) -> bool:
    """Whether a browser may have sent this for a page that it takes for one of the very host it asks.

    Such a page needs no Origin to read, and over plain HTTP browsers send Sec-Fetch-Site to loopback's names
    only. But all send Accept-Language, which no page can leave out. Node does, too, always with
    Sec-Fetch-Mode, which no page can add. Other methods have an Origin.
    """
    return method in ("GET", "HEAD") and "Accept-Language" in fields and "Sec-Fetch-Mode" not in fields


def _name_in(host: str) -> str:
    """The name in a Host header, as names are compared. Raises BadRequest."""
    match = _HOST.fullmatch(host)
    if match is None:
        raise BadRequest("The Host header is not host or host:port.")
    return match["name"].lower().removesuffix(".")
