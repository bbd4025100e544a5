"""The settings laid flat: key -> value, as people and programs may see them."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import msgspec

from pairproxy.config import Section, Settings

HIDDEN = "***"


def flat(settings: Settings) -> dict[str, Any]:
    """Every setting in the order of docs/configuration.md, as JSON has it; secrets hidden.

    Keys as in ``limits.attempts``; of engines ``engines[0].paced.decode``, or ``engines``: [] for none.
    """
    return dict(_below("", settings))


def _below(prefix: str, section: Section) -> Iterator[tuple[str, Any]]:
    for name in section.__struct_fields__:
        key, value = f"{prefix}{name}", getattr(section, name)
        if isinstance(value, Section):
            yield from _below(f"{key}.", value)
        elif isinstance(value, tuple) and any(isinstance(entry, Section) for entry in value):
            for number, entry in enumerate(value):
                yield from _below(f"{key}[{number}].", entry)
        else:
            yield key, list(value) if isinstance(value, tuple) else _hidden(msgspec.to_builtins(value))


def _hidden(value: Any) -> Any:
    """A value without the secrets that an address can hold."""
    if not isinstance(value, str) or "://" not in value:
        return value
    try:
        parts = urlsplit(value)
        host = parts.netloc.rpartition("@")[2]
        netloc = f"{HIDDEN}@{host}" if "@" in parts.netloc else host
        return urlunsplit((parts.scheme, netloc, parts.path, HIDDEN if parts.query else "", ""))
    except ValueError:
        return HIDDEN
