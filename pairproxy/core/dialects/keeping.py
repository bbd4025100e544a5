"""How long a request asks its model to stay in memory, and whether that is all it asks: Ollama's keep_alive.

    no prompt, keep_alive 0  -> unload       no prompt, anything else -> load
    a prompt, keep_alive 0   -> unload after the reply            -> "stays": it is not for a peer
    a prompt, for very long  -> the model holds memory for days   -> "stays"

The other dialects have no such field. Go on: core.residency knows where an unload has to go.
"""

import math
import re
from dataclasses import dataclass

import msgspec

from pairproxy.core.dialects.reading_json import Fields, is_nothing

LONGEST_S = 3600.0  # for which a peer's memory may be held: twelve times Ollama's default
SHORTEST_S = 1.0  # Ollama drops the part of a second

_UNITS_S = {"ns": 1e-9, "us": 1e-6, "\u00b5s": 1e-6, "\u03bcs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
_TERM = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|\u00b5s|\u03bcs|ms|s|m|h)")
_DURATION = re.compile(rf"[+-]?(?:0|(?:{_TERM.pattern})+)")
_CONTENT = {"/api/generate": "prompt", "/api/chat": "messages"}


@dataclass(frozen=True, slots=True)
class Keeping:
    """What a request asks of the memory. ``keep_alive_s`` None: as the engine likes; infinite: for ever."""

    keep_alive_s: float | None = None
    is_empty: bool = False
    """It asks for no reply."""

    @property
    def unloads(self) -> bool:
        """Whether it asks to unload the model, and nothing else."""
        return self.is_empty and self.keep_alive_s == 0.0

    @property
    def loads(self) -> bool:
        """Whether it asks to load the model, and nothing else."""
        return self.is_empty and not self.unloads

    @property
    def stays(self) -> bool:
        """Whether it would rule over the memory of a peer: its users would feel it long after the reply."""
        return self.keep_alive_s is not None and not 0.0 < self.keep_alive_s <= LONGEST_S


NOTHING = Keeping()


def keeping_of(path: str, fields: Fields) -> Keeping:
    """Read it from the fields of a body; NOTHING for a path of other words. Raises msgspec.DecodeError."""
    if not path.startswith("/api/") or path.startswith(("/api/v0/", "/api/v1/")):
        return NOTHING
    raw = fields.get("keep_alive")
    keep_alive_s = None if raw is None else _seconds(msgspec.json.decode(raw))
    content = _CONTENT.get(path)
    return Keeping(keep_alive_s, content is not None and is_nothing(fields.get(content)))


def _seconds(value: object) -> float | None:
    """Seconds as Ollama reads a number or a duration such as "5m30s"; negative is for ever; None: neither."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return math.inf if value < 0 else float(int(value))
    if not isinstance(value, str) or not _DURATION.fullmatch(value):
        return None
    seconds = sum(float(number) * _UNITS_S[unit] for number, unit in _TERM.findall(value))
    if value.startswith("-") and seconds:
        return math.inf
    return seconds if seconds >= SHORTEST_S else 0.0
