"""Numbers and names as a terminal shows them."""

import re
import unicodedata

MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86400.0
SHORT = 8  # characters of an id: commands take the beginning of one
ID = re.compile("[0-9a-f]{32}")  # that we gave
NO_COUNT = range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0), range(0x1F3FB, 0x1F400)
"""Selectors of variants and of skin: terminals disagree on the columns they take with what is before."""


def plain(text: str) -> str:
    """What others named or wrote, made harmless for a terminal: one line without control characters."""
    return "".join(character for character in " ".join(text.split()) if character.isprintable())


def named(text: str, *, is_ascii: bool) -> str:
    """``plain`` that is equally wide on all terminals; with ``is_ascii``, "?" for what is not ASCII."""
    kept = "".join(
        character
        for character in unicodedata.normalize("NFC", plain(text))
        if not any(ord(character) in some for some in NO_COUNT)
    )
    return kept.encode("ascii", "replace").decode() if is_ascii else kept


def called(run: str) -> str:
    """The name of a run, or the beginning of the id of one without."""
    return run[:SHORT] if ID.fullmatch(run) else run


def counted(count: int, one: str) -> str:
    """``1 request``, ``2 requests``."""
    return f"{count} {one}" if count == 1 else f"{count} {one}s"


def lasting(seconds: float) -> str:
    """A time in at most six characters: ``0.42 s``, ``12.3 s``, ``75 s``, ``12 min``, ``3 h``, ``4 d``."""
    if seconds < 10.0:
        return f"{max(seconds, 0.0):.2f} s"
    if seconds < MINUTE_S:
        return f"{seconds:.1f} s"
    if seconds < 10 * MINUTE_S:
        return f"{seconds:.0f} s"
    if seconds < 2 * HOUR_S:
        return f"{seconds / MINUTE_S:.0f} min"
    return f"{seconds / HOUR_S:.0f} h" if seconds < 2 * DAY_S else f"{seconds / DAY_S:.0f} d"
