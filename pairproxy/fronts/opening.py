"""When a front is open: while any node could serve, a little slower than that changes."""

from pairproxy.core.scheduler import Scheduler

CLOSE_AFTER_S = 3.0
"""An engine that is restarted by its manager is back in two or three seconds (systemd's RestartSec for Ollama
is 3): clients that wait for it fare better than those that are refused. Longer would keep clients that start
an engine of their own, which a refused connection makes them do, from doing it."""
OPEN_AFTER_S = 0.2
"""What answers once and is gone again (an engine that dies while starting) opens no port."""


def can_serve(scheduler: Scheduler, at: float) -> bool:
    """Whether any node could serve a client of this machine: an engine here, a peer that offers a model."""
    if any(True for _ in scheduler.local.reports()):
        return True
    if scheduler.rules.policy == "local-only":
        return False
    return any(engine.replicas for document in scheduler.nodes.healthy(at) for engine in document.engines)


class Opening:
    """Whether a front is to be open, told again and again whether any node could serve."""

    def __init__(self, *, is_open: bool) -> None:
        self.is_open = is_open
        self._differs_since: float | None = None

    @property
    def is_settled(self) -> bool:
        """Whether it stays as it is if nothing changes."""
        return self._differs_since is None

    def judge(self, *, can_serve: bool, at: float) -> bool:
        """Take in how it is ``at`` this time; return whether the front is to be open."""
        if can_serve == self.is_open:
            self._differs_since = None
            return self.is_open
        if self._differs_since is None:
            self._differs_since = at
        if at - self._differs_since >= (CLOSE_AFTER_S if self.is_open else OPEN_AFTER_S):
            self.is_open, self._differs_since = can_serve, None
        return self.is_open
