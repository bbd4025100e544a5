"""Foreign work: whether somebody uses a machine beside us, as its replies tell.

The owner plays a game, or asks the engine directly: then everything decodes slower than it usually does in
the same company. We offer a slot less for it, and one more for each while in which nothing was slow.
"""

from dataclasses import dataclass

from pairproxy.core.models import EngineId

SLOW = 0.6  # of the usual rate: what noise, longer contexts and thermal limits do not explain together
LOWER_AFTER_S = 10.0  # of slow replies: one page that loads is no reason
RAISE_AFTER_S = 30.0  # without a slow reply: a game pauses, too
MIN_REPLIES = 2  # slow ones in a row: one may have had a reason of its own


@dataclass(slots=True)
class _Watch:
    lost: int = 0
    slow_since: float | None = None
    slow_replies: int = 0
    clean_since: float = 0.0


class ForeignWork:
    """How many slots of each engine are not offered. Bounded by this node's engines."""

    def __init__(self) -> None:
        self._watches: dict[EngineId, _Watch] = {}
        self._is_any_lost = False  # else time has nothing to give back
        self.changes = 0  # grows with every slot that is lost or given back

    def saw(self, engine: EngineId, part: float, took_s: float, at: float) -> None:
        """A reply that ended at ``at`` decoded for ``took_s`` at a ``part`` of the usual rate."""
        watch = self._watches.setdefault(engine, _Watch(clean_since=at))
        if part >= SLOW:
            watch.slow_since, watch.slow_replies = None, 0
            return
        self.count_time(at)
        if watch.slow_since is None:
            watch.slow_since = at - took_s
        watch.slow_replies += 1
        watch.clean_since = at
        if at - watch.slow_since >= LOWER_AFTER_S and watch.slow_replies >= MIN_REPLIES:
            watch.lost += 1
            self._is_any_lost = True
            self.changes += 1
            watch.slow_since, watch.slow_replies = at, 0

    def count_time(self, at: float) -> None:
        """Give back slots for time in which nothing was slow; call on every event."""
        if not self._is_any_lost:
            return
        for watch in self._watches.values():
            while watch.lost and at - watch.clean_since >= RAISE_AFTER_S:
                watch.lost -= 1
                watch.clean_since += RAISE_AFTER_S
                self.changes += 1
        self._is_any_lost = any(watch.lost for watch in self._watches.values())

    def lost(self, engine: EngineId, slots: int) -> int:
        """Of so many slots, those not offered; one is always left, or nothing would tell that it is over."""
        watch = self._watches.get(engine)
        if watch is None:
            return 0
        watch.lost = min(watch.lost, max(slots - 1, 0))
        return watch.lost

    def forget(self, engine: EngineId) -> None:
        """The engine is gone, or starts anew."""
        self._watches.pop(engine, None)
        self.changes += 1
