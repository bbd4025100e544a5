"""One front: a client port that opens, closes, waits for its engine, and gives way to it.

::

    usual  by the rules: open while any node could serve (opening) and nobody else has the port (held)
    take   the port is had the moment it is free; requests wait for the engine to answer
    give   closed, whatever could serve

From take and give it comes back to usual when told, or after TAKE_S and GIVE_S.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from pairproxy.api.ports import PortState, PortStatus
from pairproxy.core.errors import ConfigError
from pairproxy.core.models import EngineId
from pairproxy.engines.sought import SoughtEngine
from pairproxy.fronts import telling
from pairproxy.fronts.opening import CLOSE_AFTER_S, Opening
from pairproxy.proxy.client_port import ClientPort
from pairproxy.proxy.listening import Holder, bind_if_free, holder_of, host_of, is_free, port_of, warn_of_twin
from pairproxy.service.supervised import Supervisor

TAKE_S = 60.0  # an engine that is being moved answers within it (Ollama that looks for many GPUs: 20 s)
GIVE_S = 600.0  # a command that gave the port away and was killed must not keep it closed for ever
HOT_S = 0.005  # between two tries of a port that is about to be free: nobody shall find it closed
WAIT_S = 0.05  # between two looks at an engine for which requests wait
HELD_S = 2.0  # between two tries of a port that somebody has
LOOK_S = 1.0  # between two looks when nothing is expected; what happens is told at once (poke)
SETTLE_S = 0.1  # while a change is pending
LEAVE_S = 12.0
"""A port that an engine held is left to it for so long after it was seen free: by then one that is restarted
by its manager, or updated by its app, is back. Taken earlier, it would find its port gone and end."""

Wish = Literal["take", "give", "usual", "look"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all fronts of a daemon share."""

    now: Callable[[], float]  # of the loop's clock
    can_serve: Callable[[], bool]
    look: Callable[[float], Awaitable[None]]  # OwnEngines.look
    ours: set[int]  # the ports on which fronts listen
    supervisor: Supervisor
    changed: Callable[[], None]  # what is told of a front is another than before


class Front:
    """See above. step() looks at everything anew; run() does so whenever it may have changed."""

    def __init__(
        self,
        kind: str,
        engine: EngineId,
        where: tuple[str, int],
        around: Surroundings,
        sought: SoughtEngine | None,
        mend: Callable[[], str] = lambda: "",
    ) -> None:
        """``where``: host and port; port 0 is chosen once, when it is bound. ``sought``: its engine.

        ``mend`` is asked while that engine is back at this very port; returns what is done about it.
        """
        self.kind, self.engine = kind, engine
        self.host, self.port = where
        self.is_wanted = True
        """False: there is no such front yet; take() makes it wanted."""
        self.client: ClientPort | None = None
        self._around, self._sought, self._mend = around, sought, mend
        self._sockets: list[socket.socket] = []
        self._is_answering = False
        self._opening = Opening(is_open=False)
        self._wish: Wish = "usual"
        self._wish_until = self._waits_until = float("-inf")
        self._waits_for_engine = False
        self._held_at: float | None = None  # when somebody was seen to have the port last
        self._is_held = False
        self._holder: Holder | None = None
        self._asking: asyncio.Task[Holder] | None = None
        self._mending = ""
        self._is_ending = False
        self._poked, self._ready = asyncio.Event(), asyncio.Event()
        self._ready.set()
        self._stepping = asyncio.Lock()

    # --- told -------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether clients are answered."""
        return self._is_answering

    @property
    def state(self) -> PortState:
        """See api.ports."""
        if self._is_answering:
            return "open"
        if self._wish == "give":
            return "given"
        return "held" if self._is_held else "closed"

    @property
    def status(self) -> PortStatus:
        """What is told of it."""
        state = self.state
        hosts = tuple(host_of(sock) for sock in self._sockets) if state == "open" else ()
        holder = self._holder.told if self._holder is not None and state == "held" else None
        why = telling.why(
            state, self.kind, self.port, holder, self._mending, is_engine=self._has_engine_here()
        )
        return PortStatus(self.kind, self.port, state, hosts, holder, why)

    def _has_engine_here(self) -> bool:
        """Whether the engine that it stands for answers at this very port."""
        return self._sought is not None and self._sought.port == self.port

    def _has_moved(self) -> bool:
        """Whether the engine answers elsewhere, and will not want this port."""
        return self._sought is not None and self._sought.port not in (None, self.port)

    # --- bound at the start -----------------------------------------------------------------------------

    def bind(self) -> bool:
        """Have the port before anything is started; False: somebody else has it. Raises ConfigError."""
        inherited = self._inherited()
        sockets = inherited or bind_if_free(self.host, self.port)
        if sockets is None:
            self._held_at, self._is_held = self._around.now(), True
            return False
        self._have(sockets)
        if inherited:  # others wait in it: it counts as open until it is known that nobody can serve
            self._opening = Opening(is_open=True)
            self._wait(CLOSE_AFTER_S, for_engine=False)
        return True

    def held_by(self, holder: Holder) -> None:
        """It is known who has the port."""
        self._holder = holder

    def _inherited(self) -> list[socket.socket]:
        hosts = (self.host, *telling.twins(self.host, self.port))
        found = (self._around.supervisor.take(host, self.port) for host in hosts)
        return [sock for sock in found if sock is not None]

    def _have(self, sockets: list[socket.socket]) -> None:
        self._sockets, self.port = sockets, port_of(sockets[0])
        self._is_held, self._held_at, self._holder, self._mending = False, None, None, ""
        self._around.ours.add(self.port)
        for sock in sockets:
            self._around.supervisor.keep(_name_of(sock), sock)
        if len(sockets) == 1 and telling.twins(self.host, self.port):
            asyncio.get_running_loop().run_in_executor(None, warn_of_twin, self.host, self.port)

    # --- going on ---------------------------------------------------------------------------------------

    def serve_with(self, client: ClientPort) -> None:
        """Answer by ``client`` from the first step on; open at once if any node can serve."""
        self.client = client
        client.until_ready = self._until_ready
        if self._around.can_serve():
            self._opening = Opening(is_open=True)

    def poke(self) -> None:
        """Something happened that may concern it."""
        self._poked.set()

    def want(self, wish: Wish) -> None:
        """Go by a wish of POST /ports from the next step on."""
        now = self._around.now()
        if wish == "take":
            self.is_wanted = True
            self._wish, self._wish_until = "take", now + TAKE_S
            if self._sought is not None:
                self._wait(TAKE_S, for_engine=True)
        elif wish == "give":
            self._wish, self._wish_until = "give", now + GIVE_S
        elif wish == "usual":
            self._end_wish(now)
        self.poke()

    def _end_wish(self, now: float) -> None:
        if self._wish == "give":
            self._held_at = now  # its engine may be about to come back to it
        elif self._wish == "take" and self._is_answering:
            self._opening = Opening(is_open=True)  # it closes only if nobody can serve for a while
        self._wish = "usual"

    def end(self) -> None:
        """Never open again: the daemon stops."""
        self._is_ending = True
        self._ready.set()

    async def run(self) -> None:
        """Go on until cancelled."""
        while True:
            await self.step()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._rest_s()):
                    await self._poked.wait()
            self._poked.clear()

    async def step(self) -> None:
        """Look at everything, and act."""
        async with self._stepping:
            if self._is_ending or not self.is_wanted or self.client is None:
                return
            before = self.status
            await self._act(self.client)
            if self.status != before:
                self._around.changed()

    def close(self) -> None:
        """Give the port back."""
        for sock in self._sockets:
            sock.close()
        self._around.ours.discard(self.port)

    async def _act(self, client: ClientPort) -> None:
        now = self._around.now()
        if self._wish in ("take", "give") and now >= self._wish_until:
            _log.info("port %d: by its usual rules again", self.port)
            self._end_wish(now)
        judged = self._opening.judge(can_serve=self._around.can_serve(), at=now)
        wanted = self._wish == "take" or (self._wish == "usual" and judged)
        if wanted and not self._is_answering:
            await self._open(client, now)
        elif not wanted and (self._is_answering or self._sockets):
            await self._shut(client)
        if not wanted:
            self._is_held = False
        await self._see_to_waiting(now)

    async def _open(self, client: ClientPort, now: float) -> None:
        if not self._sockets and not self._try_to_have(now):
            return
        for sock in self._sockets:
            await client.start(sock)
        self._is_answering = True
        _log.info("port %d answers for %s", self.port, self.kind)

    def _try_to_have(self, now: float) -> bool:
        if self._wish != "take" and self._is_left_to_its_engine(now):
            return False
        try:
            sockets = bind_if_free(self.host, self.port)
        except ConfigError as error:
            _log.warning("%s", error.sentence)
            sockets = None
        if sockets is None:
            self._see_held(now)
            return False
        self._have(sockets)
        return True

    def _is_left_to_its_engine(self, now: float) -> bool:
        """Whether the port is not to be had now, though it may be free."""
        if self._held_at is None or now - self._held_at >= LEAVE_S or self._has_moved():
            return False
        if not is_free(self.host, self.port):
            self._see_held(now)
        else:
            self._is_held = False
        return True

    def _see_held(self, now: float) -> None:
        self._held_at, self._is_held = now, True
        if self._wish == "take":
            return
        if self._has_engine_here():
            self._mending = self._mend()
        if (
            self._holder is None and self._asking is None
        ):  # it takes tenths of a second, so in a thread; the next step may know
            self._asking = asyncio.create_task(
                asyncio.to_thread(holder_of, self.host, self.port), name=f"who has port {self.port}"
            )
            self._asking.add_done_callback(self._asked)

    def _asked(self, task: "asyncio.Task[Holder]") -> None:
        self._asking = None
        if task.cancelled() or task.exception() is not None or not self._is_held:
            return
        self._holder = task.result()
        _log.warning("%s", self.status.why)
        self._around.changed()

    async def _shut(self, client: ClientPort) -> None:
        was_answering, self._is_answering = self._is_answering, False
        sockets, self._sockets = self._sockets, []
        for sock in sockets:
            self._around.supervisor.drop(_name_of(sock))
        if was_answering:
            await client.part(for_good=self._around.supervisor.is_there)
            reason = "as it was told" if self._wish == "give" else "for no node can serve"
            _log.info("port %d is closed, %s", self.port, reason)
        for sock in sockets:
            sock.close()
        self._around.ours.discard(self.port)

    # --- requests that wait for the engine --------------------------------------------------------------

    def _wait(self, patience_s: float, *, for_engine: bool) -> None:
        """Let requests wait: for the engine of this front, or until anybody can serve."""
        self._waits_until = self._around.now() + patience_s
        self._waits_for_engine = for_engine
        self._ready.clear()

    async def _until_ready(self) -> None:
        if not self._ready.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(self._waits_until - self._around.now(), 0.0)):
                    await self._ready.wait()

    async def _see_to_waiting(self, now: float) -> None:
        """Let requests go on, or wait (again), by what is there."""
        if self._ready.is_set() and self._wish != "take":
            return
        if self._waits_for_engine and (self._is_answering or self._wish != "take"):
            await self._around.look(LOOK_S)
        is_there = self._sought is not None and self._sought.port is not None
        if not self._waits_for_engine:
            is_there = self._around.can_serve()
        if is_there or now >= self._waits_until:
            self._ready.set()
        else:
            self._ready.clear()

    def _rest_s(self) -> float:
        if self._wish == "take" and not self._is_answering:
            return HOT_S
        if self._wish == "take" or not self._ready.is_set():
            return WAIT_S
        if not self._opening.is_settled or not self.is_wanted:
            return SETTLE_S if self.is_wanted else LOOK_S
        return HELD_S if self._is_held else LOOK_S


def _name_of(sock: socket.socket) -> str:
    """How the service manager calls it, while it keeps it for the next life."""
    return f"front-{port_of(sock)}-{'v6' if sock.family == socket.AF_INET6 else 'v4'}"
