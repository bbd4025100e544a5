"""All ports of one daemon: bound before anything is started, opened when there is something to answer."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, get_args

import msgspec

from pairproxy.admin.server import Change
from pairproxy.api.ports import PortsAnswer, PortStatus, PortWish
from pairproxy.api.schema import DaemonFile
from pairproxy.config import Settings
from pairproxy.core.commands import Command
from pairproxy.core.errors import BadRequest, PortTaken, StoreError
from pairproxy.core.events import EngineLost, EngineReported, Event, NodeForgotten, NodeLost, NodeReported
from pairproxy.core.models import EngineId, NodeId
from pairproxy.core.residency import Residency
from pairproxy.core.scheduler import Scheduler
from pairproxy.dispatcher import Dispatcher, Spawn
from pairproxy.engines.finder import kind_at
from pairproxy.engines.own import OwnEngines
from pairproxy.engines.ports import PORTS, how_to_go_on
from pairproxy.fronts.front import LOOK_S, Front, Surroundings
from pairproxy.fronts.opening import can_serve
from pairproxy.observing import Observing
from pairproxy.peering import Peering, bind_peer_port
from pairproxy.peers.restarting import restarting
from pairproxy.proxy.catalogue import Catalogue
from pairproxy.proxy.client_port import ClientPort
from pairproxy.proxy.forward import Route
from pairproxy.proxy.gate import Gate
from pairproxy.proxy.listening import all_or_none, bind_plain, holder_of, host_of, plain_address, port_of
from pairproxy.proxy.server import Port
from pairproxy.proxy.unloading import Unloading
from pairproxy.security.trust import TrustStore
from pairproxy.service.supervised import Supervisor
from pairproxy.takeover import record
from pairproxy.takeover.mending import Mending

_OTHER_ADMIN = "Stop that program, or set admin.listen in config.toml to another port."
_WISHES = ", ".join(get_args(PortWish.__annotations__["want"]))
_NEWS = (EngineReported, EngineLost, NodeLost, NodeForgotten)


class Fronts:
    """Every port of a daemon, from binding to the end."""

    def __init__(
        self,
        own: NodeId,
        home: Path,
        settings: Settings,
        engines: OwnEngines,
        scheduler: Scheduler,
        dispatcher: Dispatcher,
        supervisor: Supervisor,
        ours: set[int],
    ) -> None:
        """``own``: this node. ``ours``: the ports on which fronts listen, kept here. Raises ConfigError."""
        self._own, self._home, self._settings = own, home, settings
        self._engines, self._scheduler, self._dispatcher = engines, scheduler, dispatcher
        self._gate = Gate()
        self._peers: list[socket.socket] = []
        self._admin: list[socket.socket] = []
        self._on_change: Callable[[], None] = lambda: None
        self.ports: list[Port] = []
        """Those that are there, in the order of their opening."""
        self.client_ports: dict[str, int] = {}
        """Engine -> the port on which its front is open."""
        around = Surroundings(
            dispatcher.now, self._can_serve, self._answers, engines.look, ours, supervisor, self._changed
        )
        self._is_found = not settings.engines  # nobody said which engines there are
        self._fronts: list[Front] = []
        for engine in engines.engines:
            if engine.listen:
                where = plain_address(engine.listen, "engines.listen")
                sought = engines.sought(engine.kind)
                front = Front(engine.kind, engine.id, where, around, sought)
                front.is_wanted = not (self._is_found and engine.kind == "lmstudio")
                self._fronts.append(front)

    # --- bound ------------------------------------------------------------------------------------------

    async def bind(self, trust: TrustStore) -> None:
        """Take every port that can be had. Raises PortTaken with who has it, ConfigError.

        One that the very kind of engine has for which we would stand there is left to it: it may be moved
        (takeover), or go by itself.
        """
        with all_or_none() as keep:
            for front in self._fronts:
                if not front.bind():
                    await self._see_who_has(front)
            self._peers = bind_peer_port(self._settings, trust, keep)
            self._admin = keep(bind_plain(self._settings.admin.listen, "admin.listen", _OTHER_ADMIN))

    async def _see_who_has(self, front: Front) -> None:
        holder = await asyncio.to_thread(holder_of, front.host, front.port)
        is_its_engine = False
        if not holder.is_pairproxy and front.kind in PORTS and PORTS[front.kind].moved is not None:
            is_its_engine = await kind_at(front.port) == front.kind
        if not is_its_engine:
            raise PortTaken(holder.sentence(front.host, front.port, how_to_go_on(front.kind)))
        front.held_by(holder)

    def close(self) -> None:
        """Give all ports back."""
        for front in self._fronts:
            front.stand.close()
        for sock in (*self._peers, *self._admin):
            sock.close()

    # --- told -------------------------------------------------------------------------------------------

    @property
    def statuses(self) -> tuple[PortStatus, ...]:
        """Every client port."""
        return tuple(front.status for front in self._fronts if front.is_wanted)

    def file(self, name: str) -> DaemonFile:
        """What daemon.json says of them."""
        return DaemonFile(
            pid=os.getpid(),
            node=self._own,
            name=name,
            admin_port=port_of(self._admin[0]),
            peer_port=port_of(self._peers[0]) if self._peers else None,
            admin_host=host_of(self._admin[0]),
            has_engine=any(True for _ in self._scheduler.local.reports()) or not self._is_found,
            **self.whereabouts(),
        )

    def whereabouts(self) -> dict[str, Any]:
        """Those fields of it that may change."""
        wanted = [front for front in self._fronts if front.is_wanted and front.port]
        return {
            "client_ports": {str(front.engine): front.port for front in wanted},
            "client_hosts": {str(front.engine): front.host for front in wanted},
            "ports": self.statuses,
        }

    # --- opened -----------------------------------------------------------------------------------------

    async def open_peers(
        self,
        peering: Peering,
        route: Route,
        residency: Residency,
        catalogue: Catalogue,
        stack: AsyncExitStack,
    ) -> None:
        """Answer peers. The port is made also while nobody is paired: it opens with the first one."""
        port = peering.port(route, self._engines.authority, residency, catalogue)
        self.ports.append(port)
        stack.push_async_callback(port.stop)
        for sock in self._peers:
            await peering.open(sock)

    async def open_clients(
        self, route: Route, unloading: Unloading, catalogue: Catalogue, stack: AsyncExitStack
    ) -> None:
        """Answer the programs of this machine, where anybody can serve them."""
        for front in self._fronts:
            client = ClientPort(
                self._own, front.engine, self._dispatcher, route, self._settings.limits, self._gate,
                unloading, front.kind, catalogue,
            )  # fmt: skip
            self.ports.append(client)
            stack.push_async_callback(client.stop)
            front.serve_with(client)
        self._see_what_is_wanted()
        await self._see_who_judges_pages()
        for front in self._fronts:
            await front.step()

    async def open_admin(
        self, observing: Observing, token: str, changes: Mapping[str, Change], stack: AsyncExitStack
    ) -> None:
        """Answer who looks on, and who shows the token."""
        told = {"/ports": self.wish, **changes}
        admin = observing.port(
            self.client_ports, self._settings.limits, self._gate, token, told, lambda: self.statuses
        )
        self.ports.append(admin)
        stack.push_async_callback(admin.stop)
        for sock in self._admin:
            await admin.start(sock)

    # --- going on ---------------------------------------------------------------------------------------

    def start(self, spawn: Spawn, on_change: Callable[[], None]) -> None:
        """Open and close the fronts from now on. ``on_change``: what file() says is another than before."""
        self._on_change = on_change
        mending = Mending(self._home, self._dispatcher.now, spawn, self._take, self._is_idle)
        self._dispatcher.listen(self._heard, *_NEWS, NodeReported)
        for front in self._fronts:
            front.mending = mending
            name = f"front of {front.engine}"
            spawn(name, restarting(name, front.run))

    def end(self) -> None:
        """Open nothing any more: the daemon stops."""
        for front in self._fronts:
            front.end()

    async def wish(self, body: bytes) -> PortsAnswer:
        """POST /ports. Raises BadRequest."""
        try:
            wish = msgspec.json.decode(body, type=PortWish)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise BadRequest(f'Say {{"want": W, "port": N}}; W is one of {_WISHES}.') from None
        meant = [one for one in self._fronts if wish.port in (0, one.port)]
        if not meant:
            known = ", ".join(str(one.port) for one in self._fronts)
            raise BadRequest(f"There is no client port {wish.port} here. There is: {known or 'none'}.")
        if wish.want in ("look", "usual"):  # an engine that moved is seen where it is now
            await self._engines.look(LOOK_S)
        if wish.want == "usual":
            await self._see_who_judges_pages()
        for front in meant:
            if front.is_wanted or wish.port:
                front.want(wish.want)
        self._see_what_is_wanted()
        for front in meant:
            await front.step()
        return PortsAnswer(self._own, self.statuses)

    async def _see_who_judges_pages(self) -> None:
        """Any page may ask an LM Studio that was started so; with what it was, the undo record tells."""
        with contextlib.suppress(StoreError):  # who releases is told of it
            kept = await asyncio.to_thread(record.read, self._home)
            judging = {one.kind for one in kept.taken if one.facts.get("cors") == "true"}
            for front in self._fronts:
                if front.client is not None:
                    front.client.lets_engine_judge = front.kind in judging

    def _take(self, kind: str) -> None:
        for front in self._fronts:
            if front.kind == kind:
                front.want("take")

    def _is_idle(self, kind: str) -> bool:
        """Whether nothing of ours runs on the engine of a kind."""
        engines = {front.engine for front in self._fronts if front.kind == kind}
        return not any(
            one.place.node == self._own and one.place.engine in engines for one in self._scheduler.running
        )

    def _answers(self, engine: EngineId) -> bool:
        return self._scheduler.local.get(engine) is not None

    def _can_serve(self) -> bool:
        return can_serve(self._scheduler, self._dispatcher.now())

    def _heard(self, event: Event, _: list[Command]) -> None:
        is_news = isinstance(event, _NEWS)
        if is_news:
            self._see_what_is_wanted()
        for front in self._fronts:
            if is_news or not front.is_open:
                front.poke()

    def _see_what_is_wanted(self) -> None:
        """Which fronts there are, and what each stands for, where nobody said which engines there are."""
        if not self._is_found:
            return
        here = {report.engine: report.kind for report in self._scheduler.local.reports()}
        for front in self._fronts:
            if not front.is_wanted:
                front.is_wanted = self._is_known(front.kind)
            elif front.kind == "ollama" and front.client is not None:
                listening = {one.engine for one in self._fronts}
                others = [(one, kind) for one, kind in here.items() if one not in listening]
                is_needed = front.engine not in here and others
                front.client.stand_for(*(others[0] if is_needed else (front.engine, front.kind)))

    def _is_known(self, kind: str) -> bool:
        """Whether an engine of a kind was seen here, or a peer that answers has one."""
        if any(report.kind == kind for report in self._scheduler.local.reports()):
            return True
        there = self._scheduler.nodes.healthy(self._dispatcher.now())
        return any(engine.kind == kind for document in there for engine in document.engines)

    def _changed(self) -> None:
        self.client_ports.clear()
        self.client_ports.update({str(one.engine): one.port for one in self._fronts if one.is_open})
        self._on_change()
