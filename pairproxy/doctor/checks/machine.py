"""This Python: whether it and what it runs are as fast as they could be."""

from collections.abc import Iterator

from pairproxy.api.diagnosis import Finding
from pairproxy.doctor.facts import Facts

_AGAIN = (
    "Install it again from its clone, on a Python that has wheels: "
    "`uv tool install --force --python 3.13 ./pairproxy`."
)
_ON_ANOTHER = (
    "Where that matters, install it from its clone on a Python of uv's: "
    "`uv tool install --force --managed-python ./pairproxy`. To make one of pyenv's again: "
    "`PYTHON_CONFIGURE_OPTS='--enable-optimizations --with-lto' pyenv install --force VERSION`."
)
_COMPILED = (
    "Where that matters, install a C compiler and Python's headers "
    "(Debian: `apt install gcc libc6-dev python3-dev`), then pairproxy again from its clone: "
    "`PAIRPROXY_COMPILE=1 uv tool install --force ./pairproxy`."
)


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


def is_optimised(facts: Facts) -> Iterator[Finding]:
    """What is installed could be faster. A checkout is meant to be slow; on Windows none was compiled."""
    if facts.machine.is_checkout:
        return
    if not facts.machine.is_compiled and facts.machine.system != "win32":
        yield Finding(
            "not-compiled",
            "note",
            "pairproxy is installed without its compiled modules: a request costs the daemon twice as much.",
            _COMPILED,
        )
    if facts.machine.python_build == "not optimised":
        yield Finding(
            "python-slow",
            "note",
            f"Python {facts.machine.python} was built without optimisation: "
            "each request costs the daemon a quarter more.",
            _ON_ANOTHER,
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
