"""The Protocols by which siblings that must not know each other are wired together in daemon.py."""

from collections.abc import Callable
from typing import Protocol

from pairproxy.core.documents import EngineReport
from pairproxy.core.events import Event
from pairproxy.core.models import EngineId


class Endpoint(Protocol):
    """Where an engine answers on loopback: (host, port) for a request path."""

    def address(self, path: str) -> tuple[str, int]:
        """Return (host, port); an engine may answer some paths on another port of its own."""


class Engine(Endpoint, Protocol):
    """The LLM server on this node: found, or started and owned by the daemon."""

    id: EngineId
    kind: str
    listen: str | None
    """``host:port`` of the client port that stands for this engine; None: it gets none."""

    async def start(self) -> None:
        """Make it ready to be probed. Raises EngineUnavailable with a sentence for a person."""

    async def stop(self) -> None:
        """End what start() began; nothing of it is left. Safe to call twice."""

    async def probe(self) -> EngineReport:
        """Ask what it serves now. Raises UpstreamError if it does not answer."""

    async def settled(self, others_in_flight: int) -> None:
        """Return when a request that was broken off no longer occupies its slot (60 s at most)."""


STATE_PATH = "/pairproxy/state"
CATALOGUE_PATH = "/pairproxy/catalogue"
MODELS_PATH = "/pairproxy/models/"
"""What nodes ask of each other's peer ports beside inference: peers asks for it, proxy answers.
For what begins with the last one, replicating does both."""

HALF_COPIED = "pairproxy-copy-"
"""How the namespace of a model begins that is being copied here: nobody's to use (replicating, engines)."""

Tell = Callable[[Event], None]
"""How shells report what happened; the dispatcher's one entrance."""
