"""Who hears of each request that ended, and what they are told: nothing that only a client said.

::

    ledger --record--> Ended --what may leave the memory--> log, metrics, traces, ...

A client may ask for a model by any name; one that no node holds is the client's own words.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from pairproxy.core.accounting.records import RequestRecord
from pairproxy.core.models import ModelName

UNKNOWN: Final = ModelName("unknown")
"""What stands for a model's name that no node holds."""
HELD_S: Final = (
    1.0  # for which it is known that a node has a name: to ask each time took longer than all else
)
MOST_HELD: Final = 256  # such answers; beyond, all are asked for anew

_log: Final = logging.getLogger(__name__)

Follower = Callable[[RequestRecord], None]


class Ended:
    """Hands each record on to all who follow. One that fails harms neither the others nor a request."""

    def __init__(self, holds: Callable[[ModelName], bool]) -> None:
        """``holds`` tells whether any node has a model by this name."""
        self._holds = holds
        self._held: dict[ModelName, float] = {}  # a name that a node has -> until when that need not be asked
        self._last = ModelName("")  # the one that was asked for last, and the same of it
        self._last_until = float("-inf")
        self._followers: list[Follower] = []

    def follow(self, follower: Follower) -> None:
        """Let ``follower`` hear each record from now on; it must not take long."""
        self._followers.append(follower)

    def hear(self, record: RequestRecord) -> None:
        """A request ended."""
        model, at = record.model, record.ended_at
        is_held = (model == self._last and at < self._last_until) or self._is_held(model, at)
        told = record if is_held else _without_name(record)
        for follower in self._followers:
            try:
                follower(told)
            except Exception as error:  # noqa: BLE001 who only looks on must not harm the requests
                _log.error("what follows the requests failed: %s", type(error).__name__)

    def _is_held(self, model: ModelName, at: float) -> bool:
        until = self._held.get(model, at)
        if at >= until:
            if not self._holds(model):
                return False
            if len(self._held) >= MOST_HELD:
                self._held.clear()
            self._held[model] = until = at + HELD_S
        self._last, self._last_until = model, until
        return True


def _without_name(record: RequestRecord) -> RequestRecord:
    """The record without the model's name, which the sentence of an error repeats."""
    return replace(record, model=UNKNOWN, error=record.error.partition(":")[0])
