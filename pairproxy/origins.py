"""Where each setting comes from: a line of the file, a variable, a flag, or the default."""

import tomllib
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

Source = Literal["default", "file", "environment", "flag"]
MOST_LINES = 500  # of a file whose lines are told; a longer one takes seconds, and nobody writes it by hand


class Origin(NamedTuple):
    """Where one setting comes from. ``where``: the variable's name, the file's path, or ""."""

    source: Source
    where: str = ""
    line: int | None = None  # of the file; None: not known

    def __str__(self) -> str:
        """As a sentence about a fault begins."""
        if self.line is not None:
            return f"{self.where}, line {self.line}"
        return self.where or ("a flag" if self.source == "flag" else "settings")


class Origins:
    """Of all settings. A key is written ``section.key``, one of an engine ``engines[0].key``."""

    def __init__(
        self, file: Path | None, text: str, environment: Mapping[str, str], flags: Mapping[str, Any]
    ) -> None:
        """``text``: what the file holds, which is TOML; ``flags`` are nested like it."""
        self._file = file
        self._text = text
        self._environment = environment
        self._flags = frozenset(_keys(flags))

    def of(self, key: str) -> Origin:
        """Where the value of a key comes from, or, of a table, its first line in the file."""
        variable = f"PAIRPROXY_{key.replace('.', '_')}".upper()
        if key in self._flags:
            return Origin("flag")
        if variable in self._environment:
            return Origin("environment", variable)
        if self._file is not None and key in self._in_file:
            return Origin("file", str(self._file), self._lines.get(key))
        return Origin("default")

    def told(self, key: str) -> str:
        """How a sentence about a fault in a key begins: by the file alone, where no more is known."""
        origin = self.of(key)
        return str(self._file) if origin.source == "default" and self._file is not None else str(origin)

    @cached_property
    def _in_file(self) -> frozenset[str]:
        return frozenset(_keys(tomllib.loads(self._text)))

    @cached_property
    def _lines(self) -> dict[str, int]:
        """The line on which each key begins: the first at which TOML, read so far, has it."""
        lines = self._text.splitlines(keepends=True)
        found: dict[str, int] = {}
        begins = 1  # of what is not whole yet: a list over several lines
        for count in range(1, len(lines) + 1 if len(lines) <= MOST_LINES else 0):
            try:
                tree = tomllib.loads("".join(lines[:count]))
            except tomllib.TOMLDecodeError:
                continue
            for key in _keys(tree):
                found.setdefault(key, begins)
            begins = count + 1
        return found


def _keys(tree: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Every key in a tree, tables and entries of lists of tables too."""
    for name, value in tree.items():
        yield from _below(f"{prefix}{name}", value)


def _below(key: str, value: Any) -> Iterator[str]:
    yield key
    if isinstance(value, Mapping):
        yield from _keys(value, f"{key}.")
    elif isinstance(value, list):
        for number, entry in enumerate(value):
            if isinstance(entry, Mapping):
                yield from _below(f"{key}[{number}]", entry)
