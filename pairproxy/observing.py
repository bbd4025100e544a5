"""All that looks on: what is kept of requests and runs, and the faces that tell of it.

::

    dispatcher --events, commands--> ledger --> view --JSON--> admin port --> commands, page, monitoring

Nothing here decides anything: whoever fails here must not harm a request.
"""

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path

from pairproxy.admin.server import AdminPort, Change, Page
from pairproxy.admin.view import View
from pairproxy.config import Limits, Settings
from pairproxy.core.accounting.ledger import Ledger
from pairproxy.core.scheduler import Scheduler
from pairproxy.dispatcher import Dispatcher, Spawn
from pairproxy.peers.book import PeerBook
from pairproxy.proxy.gate import Gate


class Observing:
    """The ledger, what else hears the dispatcher, and the admin port."""

    def __init__(
        self,
        settings: Settings,
        home: Path,
        scheduler: Scheduler,
        dispatcher: Dispatcher,
        book: PeerBook,
        discovery_problem: Callable[[], str | None],
        peer_port: Callable[[], int | None],
        loop_lag: Callable[[], float],
        name: str,
    ) -> None:
        """``name`` is this node's, for people."""
        self._settings = settings
        self._home = home
        self._ledger = Ledger()
        dispatcher.listen(self._ledger.record)
        self._view = View(
            name, scheduler, self._ledger, book, discovery_problem, peer_port, dispatcher.now, loop_lag
        )

    def start(self, spawn: Spawn, stack: AsyncExitStack) -> None:
        """Begin what goes on beside the requests; what it holds is given back by ``stack``."""

    def follow_settings(self, settings: Settings, name: str) -> None:
        """Go by settings that changed while the daemon runs."""
        self._settings = settings
        self._view.name = name

    def port(
        self,
        client_ports: Mapping[str, int],
        limits: Limits,
        gate: Gate,
        token: str,
        changes: Mapping[str, Change],
    ) -> AdminPort:
        """The admin port, not yet listening. ``client_ports``: engine -> port."""
        self._view.client_ports = client_ports
        return AdminPort(self._view, limits, gate, token, changes, self._pages())

    def _pages(self) -> dict[str, Page]:
        """What there is to look at beside the view's own paths, one line each."""
        return {}
