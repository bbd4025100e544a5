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
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from pairproxy.api.ports import PortState, PortStatus
from pairproxy.core.models import EngineId
from pairproxy.engines.sought import SoughtEngine
from pairproxy.fronts import telling
from pairproxy.fronts.opening import CLOSE_AFTER_S, Opening
from pairproxy.fronts.stand import Stand
from pairproxy.fronts.waiting import Waiting
from pairproxy.proxy.client_port import ClientPort
from pairproxy.proxy.listening import Holder
from pairproxy.service.supervised import Supervisor
from pairproxy.takeover.mending import Mending

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
    answers: Callable[[EngineId], bool]  # whether an engine here does, and what it has is known
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
    ) -> None:
        """``where``: host and port; port 0 is chosen once, when it is had. ``sought``: its engine."""
        self.kind, self.engine = kind, engine
        self.is_wanted = True
        """False: there is no such front yet; take makes it wanted."""
        self.is_open = False
        """Whether clients are answered."""
        self.client: ClientPort | None = None
        self.mending: Mending | None = None
        """Asked what is done about it while the engine is back at this very port."""
        self.stand = Stand(*where, around.ours, around.supervisor)
        self._around, self._sought = around, sought
        self._opening = Opening(is_open=False)
        self._waiting = Waiting(around.now)
        self._wish: Wish = "usual"
        self._wish_until = float("-inf")
        self._held_at: float | None = None  # when somebody was seen to have the port last
        self._is_held = self._is_ending = False
        self._mended = ""
        self._poked = asyncio.Event()
        self._stepping = asyncio.Lock()

    # --- told -------------------------------------------------------------------------------------------

    @property
    def host(self) -> str:
        """The address it stands at; a twin may go with it."""
        return self.stand.host

    @property
    def port(self) -> int:
        """0 until one is chosen."""
        return self.stand.port

    @property
    def state(self) -> PortState:
        """See api.ports."""
        if self.is_open:
            return "open"
        if self._wish == "give":
            return "given"
        return "held" if self._is_held else "closed"

    @property
    def status(self) -> PortStatus:
        """What is told of it."""
        state, holder = self.state, self.stand.holder
        hosts = self.stand.hosts if state == "open" else ()
        who = holder.told if holder is not None and state == "held" else None
        is_engine = self._has_engine_here()
        why = telling.why(state, self.kind, self.port, who, self._mended, is_engine=is_engine)
        return PortStatus(self.kind, self.port, state, hosts, who, why)

    def _has_engine_here(self) -> bool:
        """Whether the engine that it stands for answers at this very port."""
        return self._sought is not None and self._sought.port == self.port

    def _has_moved(self) -> bool:
        """Whether the engine answers elsewhere, and will not want this port."""
        return self._sought is not None and self._sought.port not in (None, self.port)

    # --- before anything is started ---------------------------------------------------------------------

    def bind(self) -> bool:
        """Have the port, before anybody is answered; False: somebody else has it. Raises ConfigError."""
        if (
            self.stand.inherit()
        ):  # others wait in it: it counts as open until it is known that nobody can serve
            self.is_wanted = True
            self._opening = Opening(is_open=True)
            self._waiting.begin(CLOSE_AFTER_S, for_engine=False)
            return True
        if not self.is_wanted or self.stand.have():
            return True
        self._held_at, self._is_held = self._around.now(), True
        return False

    def held_by(self, holder: Holder) -> None:
        """It is known who has the port."""
        self.stand.holder = holder

    def serve_with(self, client: ClientPort) -> None:
        """Answer by ``client`` from the first step on; open at once if any node can serve."""
        self.client = client
        client.until_ready = self._waiting.until_ready
        if self._around.can_serve():
            self._opening = Opening(is_open=True)

    # --- told what is wanted ----------------------------------------------------------------------------

    def poke(self) -> None:
        """Something happened that may concern it."""
        self._poked.set()

    def want(self, wish: Wish) -> None:
        """Go by a wish of POST /ports from the next step on."""
        now = self._around.now()
        if wish == "take":
            self.is_wanted = True
            self._wish, self._wish_until = "take", now + TAKE_S
            self._waiting.begin(TAKE_S, for_engine=True)
        elif wish == "give":
            self._wish, self._wish_until = "give", now + GIVE_S
        elif wish == "usual":
            self._end_wish(now)
        self.poke()

    def _end_wish(self, now: float) -> None:
        if self._wish == "give":
            self._held_at = now  # its engine may be about to come back to it
        elif self._wish == "take" and self.is_open:
            self._opening = Opening(is_open=True)  # an engine that answers only now need not be settled first
        self._wish = "usual"

    def end(self) -> None:
        """Never open again: the daemon stops."""
        self._is_ending = True
        self._waiting.end()

    # --- going on ---------------------------------------------------------------------------------------

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

    async def _act(self, client: ClientPort) -> None:
        now = self._around.now()
        if self._wish in ("take", "give") and now >= self._wish_until:
            _log.info("port %d: by its usual rules again", self.port)
            self._end_wish(now)
        judged = self._opening.judge(can_serve=self._around.can_serve(), at=now)
        is_to_be_open = self._wish == "take" or (self._wish == "usual" and judged)
        if not is_to_be_open:
            self._is_held = False
            await self._shut(client)
        elif not self.is_open and (self.stand.sockets or self._try_to_have(now)):
            await self._open(client)
        if self.mending is not None and self.is_open and self._wish == "usual":
            self._see_to_engine(self.mending)
        await self._see_to_waiting()

    def _see_to_engine(self, mending: Mending) -> None:
        """Whether the engine, whose port this front has, is where it was moved to."""
        if self._has_moved():
            mending.well(self.kind)
            self._mended = ""
        elif self._sought is not None and self._sought.port is None:
            self._mended = mending.away(self.kind)

    async def _open(self, client: ClientPort) -> None:
        for sock in self.stand.sockets:
            await client.start(sock)
        self.is_open = True
        _log.info("port %d is open: it answers in the place of %s", self.port, telling.name_of(self.kind))

    async def _shut(self, client: ClientPort) -> None:
        if self.is_open:
            self.is_open = False
            await client.part(for_good=self.stand.is_kept)
            reason = "as it was asked for" if self._wish == "give" else "for no node can serve"
            _log.info("port %d is closed, %s", self.port, reason)
        if self.stand.sockets:
            self.stand.give_up()

    def _try_to_have(self, now: float) -> bool:
        if self._wish != "take" and self._is_left_to_its_engine(now):
            return False
        if not self.stand.try_to_have():
            self._see_held(now)
            return False
        self._is_held, self._held_at, self._mended = False, None, ""
        return True

    def _is_left_to_its_engine(self, now: float) -> bool:
        """Whether the port is not to be had now, though it may be free."""
        if self._held_at is None or now - self._held_at >= LEAVE_S or self._has_moved():
            return False
        if not self.stand.is_free():
            self._see_held(now)
        else:
            self._is_held = False
        return True

    def _see_held(self, now: float) -> None:
        self._held_at, self._is_held = now, True
        if self._wish == "take":
            return
        if self._has_engine_here() and self.mending is not None:
            self._mended = self.mending.back(self.kind)
        self.stand.ask_who(self._holder_is_known)

    def _holder_is_known(self) -> None:
        if self._is_held:
            _log.warning("%s", self.status.why)
            self._around.changed()

    async def _see_to_waiting(self) -> None:
        """Let requests go on, or wait, by what is there."""
        if not self._waiting.is_on and self._wish != "take":
            return
        if not self._waiting.for_engine:
            self._waiting.judge(is_there=self._around.can_serve())
            return
        if self.is_open or self._wish != "take":
            await self._around.look(LOOK_S)
        is_found = self._sought is None or self._sought.port is not None
        self._waiting.judge(is_there=is_found and self._around.answers(self.engine))

    def _rest_s(self) -> float:
        if self._wish == "take" and not self.is_open:
            return HOT_S
        if self._wish == "take" or self._waiting.is_on:
            return WAIT_S
        if self.is_wanted and not self._opening.is_settled:
            return SETTLE_S
        return HELD_S if self._is_held else LOOK_S
