"""This Python: whether the compiled parts that pairproxy counts on are there."""

from collections.abc import Iterator

from pairproxy.api.diagnosis import Finding
from pairproxy.doctor.facts import Facts

_AGAIN = "Install it again on a Python that has wheels: `uv tool install --force --python 3.13 pairproxy`."


def is_compiled(facts: Facts) -> Iterator[Finding]:
    """Slow stand-ins in place of compiled parts; of the parser also the holes that only it had."""
    if not facts.machine.has_fast_parser:
        yield Finding(
            "parser-slow",
            "warning",
            "aiohttp's compiled parser is missing: what our own engines are asked is read more slowly.",
            f"Unset AIOHTTP_NO_EXTENSIONS if it is set. {_AGAIN}",
        )
    if not facts.machine.has_fast_loop:
        yield Finding(
            "loop-slow",
            "note",
            "uvloop cannot be imported: each request costs the daemon half as much again.",
            _AGAIN,
        )


def can_be_reached(facts: Facts) -> Iterator[Finding]:
    """Linux inside Windows: behind a NAT of its own unless it is told otherwise."""
    cards = facts.cards if isinstance(facts.cards, tuple) else ()
    if facts.machine.is_wsl and any(card.address.startswith("172.") for card in cards):
        yield Finding(
            "wsl-hidden",
            "note",
            "This is Linux inside Windows (WSL) behind a network of its own: peers do not reach it.",
            "Run pairproxy in Windows, or set networkingMode=mirrored in .wslconfig and `wsl --shutdown`.",
        )
