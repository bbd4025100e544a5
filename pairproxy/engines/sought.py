"""An engine of a well-known kind, sought where it may be: at the port it was moved to, or at its usual one.

It may start after the daemon, and move between the two while both run (takeover, release, an update that
puts it back). Its name stays the same, so that who uses it and what was learned of it does.
"""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from pairproxy.config import EngineSettings
from pairproxy.core.documents import EngineReport
from pairproxy.core.errors import Unreachable, UpstreamError
from pairproxy.core.models import EngineId
from pairproxy.engines.found import FoundEngine
from pairproxy.engines.ports import HOST, PORTS, client_port

Make = Callable[[EngineSettings], FoundEngine]
IsOurs = Callable[[int], bool]
"""Whether this daemon itself listens for clients at a port: no engine is asked there."""


@dataclass(frozen=True, slots=True)
class Where:
    """The two ports of a kind that has two."""

    usual: int
    moved: int


def places_of(settings: EngineSettings) -> Where | None:
    """Where an engine of these settings is sought; None: it is where they say, and nowhere else."""
    ports = PORTS.get(settings.kind)
    if settings.url is not None or ports is None or ports.moved is None:
        return None
    return Where(ports.usual, ports.moved)


class SoughtEngine:
    """interfaces.Engine for one that is asked at two ports."""

    def __init__(self, settings: EngineSettings, where: Where, make: Make, is_ours: IsOurs) -> None:
        """Raises ConfigError."""
        self.kind: str = settings.kind
        self.id = EngineId(f"{settings.kind}-{where.usual}")
        self.listen = client_port(settings)
        self.where = where
        self._is_ours = is_ours
        self._at = {port: self._one(settings, port, make) for port in (where.moved, where.usual)}
        self._port: int | None = None

    def _one(self, settings: EngineSettings, port: int, make: Make) -> FoundEngine:
        engine = make(msgspec.structs.replace(settings, url=f"http://{HOST}:{port}"))
        engine.id = self.id
        return engine

    @property
    def port(self) -> int | None:
        """Where it answered last; None: it does not answer."""
        return None if self._port is None or self._is_ours(self._port) else self._port

    async def start(self) -> None:
        """Nothing to start: it runs without us."""

    async def stop(self) -> None:
        """Nothing to stop: it is not ours."""

    def address(self, path: str) -> tuple[str, int]:
        """Where it answers; else where we do not listen: a request must never come back to us."""
        return self._at[self.port or self.where.moved].address(path)

    async def probe(self) -> EngineReport:
        """Ask where it was last, then at the other port. Raises UpstreamError if it answers at neither."""
        order = sorted(self._at, key=lambda port: port != self._port)
        failure: UpstreamError | None = None
        for port in order:
            if self._is_ours(port):
                continue
            try:
                report = await self._at[port].probe()
            except UpstreamError as error:
                failure = failure if isinstance(error, Unreachable) and failure is not None else error
                continue
            self._port = port
            return report
        self._port = None
        raise failure or Unreachable(f"No {self.kind} answers on port {self.where.moved}.")

    async def settled(self, others_in_flight: int) -> None:
        """Return when a request that was broken off is over, as far as can be told."""
        await self._at[self.port or self.where.moved].settled(others_in_flight)
