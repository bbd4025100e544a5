"""All that looks on: what is kept of requests and runs, and the faces that tell of it.

::

    dispatcher --events, commands--> ledger --> view --JSON--> admin port --> commands, page, monitoring

Nothing here decides anything: whoever fails here must not harm a request.
"""

import asyncio
import os
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from pairproxy.admin.holdings import look
from pairproxy.admin.live import IDLE_S, Live
from pairproxy.admin.matrix import lay_out
from pairproxy.admin.pages import description, kept, reckoned
from pairproxy.admin.runs import runs_page
from pairproxy.admin.server import AdminPort, Change, Page, answer
from pairproxy.admin.view import View
from pairproxy.api.models import ModelMatrix
from pairproxy.api.offering import OfferStatus
from pairproxy.api.ports import PortStatus
from pairproxy.api.settings import SettingsInForce
from pairproxy.clock import wall
from pairproxy.config import Limits, Settings
from pairproxy.core.accounting.ledger import Ledger
from pairproxy.core.accounting.throughput import Throughput
from pairproxy.core.models import ModelName
from pairproxy.core.scheduler import Scheduler
from pairproxy.dispatcher import Dispatcher, Spawn
from pairproxy.effective import flat
from pairproxy.ended import Ended
from pairproxy.history import changes
from pairproxy.history.writing import History
from pairproxy.peers.book import PeerBook
from pairproxy.peers.restarting import restarting
from pairproxy.proxy.gate import Gate
from pairproxy.request_log import RequestLog
from pairproxy.responses import Asked, StreamResponse
from pairproxy.totals import Totals
from pairproxy.tracing import Tracing
from pairproxy.web.serving import page_handlers

if TYPE_CHECKING:
    from pairproxy.admin.advising import Advising
    from pairproxy.metrics import Metrics


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
        self._home, self._settings = home, settings
        self._scheduler, self._book, self._now = scheduler, book, dispatcher.now
        self._ledger = Ledger()
        dispatcher.listen(self._ledger.record)
        self._ended = Ended(partial(_holds, scheduler))
        self._ledger.follow(self._ended.hear)
        throughput = Throughput(dispatcher.written_of)
        dispatcher.listen(throughput.record)
        self._view = View(
            name, scheduler, self._ledger, book, discovery_problem, peer_port, dispatcher.now, loop_lag,
            throughput,
        )  # fmt: skip
        self._live = Live(self._view, dispatcher.now)
        dispatcher.listen(self._live.heard)
        self._loop_lag = loop_lag
        self._advising: Advising | None = None
        self._tracing = Tracing(settings.tracing.endpoint, os.environ, scheduler.own, dispatcher.now)
        self._totals = Totals()
        self._metrics: Metrics | None = None
        self._ended.follow(self._totals.hear)
        self._ended.follow(RequestLog(self._view.name_of).hear)
        if self._tracing.is_on:
            self._ended.follow(self._tracing.hear)
        self._history = self._kept_by(settings)
        self._ended.follow(self._history.ended)
        dispatcher.listen(self._history.heard, *changes.KINDS)
        self._view.remember(self._history)

    def _kept_by(self, settings: Settings) -> History:
        return History(
            self._home, settings.history, self._scheduler.own, (self._now, wall),
            lambda: self._ledger.records, lambda: self._scheduler.places(self._now()),
            self._view.recorded, self._view.names,
        )  # fmt: skip

    def start(self, spawn: Spawn, stack: AsyncExitStack) -> None:
        """Begin what goes on beside the requests; what it holds is given back by ``stack``."""
        stack.push_async_callback(self._tracing.stop)
        stack.push_async_callback(self._history.close)
        spawn("history", restarting("history", self._history.run))
        spawn("live view", restarting("the live view", self._live.run, longest_s=IDLE_S))

    def follow_settings(self, settings: Settings, name: str) -> None:
        """Go by settings that changed while the daemon runs."""
        self._settings = settings
        self._history.follow_settings(settings.history)
        self._view.name = name

    def show_offer(self, offer: Callable[[], OfferStatus]) -> None:
        """Tell of what is offered to peers as ``offer`` says it."""
        self._view.offer = offer

    def port(
        self,
        client_ports: Mapping[str, int],
        limits: Limits,
        gate: Gate,
        token: str,
        changes: Mapping[str, Change],
        ports: Callable[[], tuple[PortStatus, ...]] = tuple,
    ) -> AdminPort:
        """The admin port, not yet listening. ``client_ports``: engine -> its open port; ``ports``: all."""
        self._view.client_ports, self._view.ports = client_ports, ports
        past = self._view.past_explanation
        return AdminPort(self._view, limits, gate, token, changes, self._pages(), past)

    def _pages(self) -> dict[str, Page]:
        """What there is to look at beside the view's own paths, one line each."""
        return {
            **page_handlers(),
            "/events": self._live.events,
            "/metrics": self._scrape,
            "/models": reckoned(self._models),
            "/runs": runs_page(self._history.runs, self._view.kept_reports),
            "/openapi.json": kept(description),
            "/config": self._config,
            "/advice": self._advice,
        }

    async def _config(self, _: Asked) -> StreamResponse:
        """GET /config."""
        return answer(SettingsInForce(self._scheduler.own, flat(self._settings)))

    async def _scrape(self, request: Asked) -> StreamResponse:
        """GET /metrics. Its library, 1 MB, is imported when somebody asks: most daemons are never scraped."""
        if self._metrics is None:
            metrics = await asyncio.to_thread(import_module, "pairproxy.metrics")
            view = self._view
            made = metrics.Metrics(self._totals, view.present, view.last_run, self._tracing.counts)
            self._metrics = self._metrics or made
        return await self._metrics.page(request)

    async def _advice(self, request: Asked) -> StreamResponse:
        """GET /advice. What it takes to advise is imported when somebody asks: it takes 0.1 s."""
        if self._advising is None:
            advising = await asyncio.to_thread(import_module, "pairproxy.admin.advising")
            known = self._scheduler, self._ledger, self._book, self._now, self._loop_lag
            self._advising = self._advising or advising.Advising(*known)
        self._advising.name = self._view.name
        return await self._advising.page(request)

    def _models(self) -> Callable[[], ModelMatrix]:
        known = look(self._scheduler, self._book.links, self._view.name, self._now())
        return lambda: lay_out(known)


def _holds(scheduler: Scheduler, model: ModelName) -> bool:
    """Whether any node, also one that does not answer just now, has a model by this name."""
    local, nodes = scheduler.local, scheduler.nodes
    known = chain(local.places(model, None), local.lost_places(model), nodes.replicas(model))
    return any(True for _ in known)
