"""With what the page is drawn: characters that the terminal has, and names of the sixteen colours.

Whatever a colour says, a character or a word says too.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass

HEAD = "bold"
SOFT = "dim"
BUSY = "green"
READING = "cyan"
WAITING = "yellow"
BAD = "bold red"
LIMIT = "bold"


@dataclass(frozen=True, slots=True)
class Palette:
    """One character each, one column wide, but for ``sparks``, from nothing to most, and ``ellipsis``."""

    writing: str
    reading: str
    others: str
    free: str
    withheld: str
    waiting: str
    done: str
    begun: str
    open: str
    wave: str
    rule: str
    dot: str
    sparks: str
    ellipsis: str
    is_ascii: bool


BLOCKS = Palette("█", "▒", "◆", "·", "x", "○", "█", "▒", "·", "│", "─", "·", " ▁▂▃▄▅▆▇█", "…", is_ascii=False)
ASCII = Palette("#", "=", "o", ".", "x", "o", "#", "=", ".", "|", "-", "-", " _.-:=+*#", "..", is_ascii=True)


def palette_for(encoding: str, environment: Mapping[str, str] | None = None) -> Palette:
    """Blocks where the person's locale and the output's ``encoding`` have them, else ASCII.

    Python 3.7 and later call the plain C locale UTF-8 (PEP 538, PEP 540); a terminal reached over ssh without
    a locale may be anything.
    """
    if not encoding.lower().replace("-", "").startswith("utf"):
        return ASCII
    if os.name == "nt":
        return BLOCKS
    return BLOCKS if _is_utf8(os.environ if environment is None else environment) else ASCII


def _is_utf8(environment: Mapping[str, str]) -> bool:
    kind = environment.get("LC_CTYPE", "")
    if sys.flags.utf8_mode and kind in ("C.UTF-8", "C.utf8", "UTF-8"):
        kind = ""  # set by Python itself, because the locale was C
    locale = environment.get("LC_ALL") or kind or environment.get("LANG", "")
    return "utf8" in locale.lower().replace("-", "")
