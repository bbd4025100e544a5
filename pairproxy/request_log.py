"""One line of the log for each request that ended: where, how, how long it took. Never a word of it."""

import logging
from collections.abc import Callable
from typing import Any, Final

from pairproxy.core.accounting.records import RequestRecord
from pairproxy.core.models import NodeId

WINDOW_S: Final = 10.0  # in which LIMIT_LINES are written at most
LIMIT_LINES: Final = 500  # two full queues; 50 a second are 1 GB a day, a storm of refusals would be twenty

_log: Final = logging.getLogger(__name__)


class RequestLog:
    """Writes the lines, at level info; those beyond LIMIT_LINES in WINDOW_S are told as a number."""

    def __init__(self, name_of: Callable[[NodeId], str]) -> None:
        """``name_of`` a node is for people."""
        self._name_of = name_of
        self._began_at = float("-inf")
        self._written = 0
        self._untold = 0

    def hear(self, record: RequestRecord) -> None:
        """A request ended."""
        if not _log.isEnabledFor(logging.INFO) or not self._has_room(record.ended_at):
            return
        _log.info("request ended", extra={"fields": self._fields(record)})

    def _has_room(self, at: float) -> bool:
        if at - self._began_at >= WINDOW_S:
            if self._untold:
                _log.warning("%d more requests ended, too many for a line each", self._untold)
            self._began_at, self._written, self._untold = at, 0, 0
        self._written += 1
        if self._written <= LIMIT_LINES:
            return True
        if not self._untold:
            _log.warning(
                "more than %d requests ended within %.0f s: the next ones are only counted",
                LIMIT_LINES,
                WINDOW_S,
            )
        self._untold += 1
        return False

    def _fields(self, record: RequestRecord) -> dict[str, Any]:
        """What there is to say; what is not known is left out."""
        usage, place = record.usage, record.place
        told: dict[str, Any] = {
            "request": record.id,
            "model": record.model,
            "node": None if place is None else self._name_of(place.node),
            "outcome": record.outcome.value,
            "latency_s": round(record.latency_s, 3),
            "queue_s": round(record.queue_s, 3),
            "ttft_s": None if record.ttft_s is None else round(record.ttft_s, 3),
            "prompt_tokens": usage.prompt_tokens,
            "cached_tokens": usage.cached_tokens,
            "output_tokens": usage.output_tokens,
            "attempts": len(record.attempts) if len(record.attempts) > 1 else None,
            "error": record.error.partition(":")[0] or None,
            "run": record.run,
            "origin": None if record.origin is None else self._name_of(record.origin),
        }
        return {key: value for key, value in told.items() if value is not None}
