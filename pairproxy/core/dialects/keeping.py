"""How long a request asks its model to stay in memory, and whether that is all it asks: Ollama's keep_alive.

    no prompt, keep_alive 0  -> unload       no prompt, anything else -> load
    anything of a guest's that would rule over the memory of others  -> a time that is bounded

The engine of the port gets what its client said. A guest asks the node that has the engine, whose own users
would feel it long after the reply: for them "for ever" is LONGEST, and "gone at once" is DEFAULT. The other
dialects have no such field. Go on: core.residency knows where an unload has to go.
"""

import math
import re
from dataclasses import dataclass
from typing import Final

import msgspec

from pairproxy.core.dialects.coding import decoded
from pairproxy.core.dialects.reading_json import Ambiguous, Fields, is_nothing, read_fields
from pairproxy.core.dialects.rename import replaced
from pairproxy.core.errors import BadRequest

LONGEST_S: Final = 3600.0  # for which a peer's memory may be held: twelve times Ollama's default
LONGEST: Final = '"1h"'
DEFAULT: Final = '"5m"'  # Ollama's own: whoever else uses the model finds it loaded
SHORTEST_S: Final = 1.0  # Ollama drops the part of a second
MOST_BYTES: Final = 1024  # of its JSON text; the longest time that Go has is spelled in thirty

_UNITS_S: Final = {
    "ns": 1e-9, "us": 1e-6, "\u00b5s": 1e-6, "\u03bcs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600,
}  # fmt: skip
_TERM: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|\u00b5s|\u03bcs|ms|s|m|h)")
_DURATION: Final = re.compile(rf"[+-]?(?:0|(?:{_TERM.pattern})+)")
_KEY: Final = b'"keep_alive"'
_CONTENT: Final = {"/api/generate": "prompt", "/api/chat": "messages"}


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
    def bound(self) -> str | None:
        """The JSON of what a guest gets instead; None where it gets what it asks for."""
        if self.unloads or self.keep_alive_s is None or 0.0 < self.keep_alive_s <= LONGEST_S:
            return None
        return LONGEST if self.keep_alive_s else DEFAULT


NOTHING: Final = Keeping()


def keeping_of(path: str, fields: Fields) -> Keeping:
    """Read it from the fields of a body; NOTHING for a path of other words.

    Raises msgspec.DecodeError, Ambiguous for what is too long to be a time.
    """
    if not path.startswith("/api/") or path.startswith(("/api/v0/", "/api/v1/")):
        return NOTHING
    raw = fields.get("keep_alive")
    if raw is not None and len(memoryview(raw)) > MOST_BYTES:
        raise Ambiguous
    keep_alive_s = None if raw is None else _seconds(msgspec.json.decode(raw))
    content = _CONTENT.get(path)
    return Keeping(keep_alive_s, content is not None and is_nothing(fields.get(content)))


def bounded(path: str, body: bytes, coding: str = "") -> bytes | None:
    """A guest's body with a keep_alive that suits others, every other byte as it was; None: it suits already.

    What had a coding comes without it. Raises BadRequest for a body that cannot be read in one way only.
    """
    plain = decoded(coding, body)
    try:
        if plain is None or plain.rfind(_KEY) < 0:  # a key spelled with escapes is ambiguous anyway
            return None
        bound = keeping_of(path, read_fields(plain)).bound
    except (Ambiguous, msgspec.DecodeError, RecursionError):
        raise BadRequest("The request body can be read in two ways.") from None
    if bound is None:
        return None
    changed = replaced(plain, "keep_alive", bound)
    if changed is None:
        raise BadRequest("The request body can be read in two ways.")
    return changed


def _whole(value: int | float) -> float | None:  # a number of hundreds of digits is no float
    try:
        return float(int(value))
    except OverflowError:  # a number that Ollama cannot read either
        return None


def _seconds(value: object) -> float | None:
    """Seconds as Ollama reads a number or a duration such as "5m30s"; negative is for ever; None: neither."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return math.inf if value < 0 else _whole(value)
    if not isinstance(value, str) or not _DURATION.fullmatch(value):
        return None
    seconds = sum(float(number) * _UNITS_S[unit] for number, unit in _TERM.findall(value))
    if value.startswith("-") and seconds:
        return math.inf
    return seconds if seconds >= SHORTEST_S else 0.0
