"""The options of `pairproxy up`, and a reading of their plain form that needs no library.

Only what is surely right is read here: `--name value` and `--name=value`, each once. Everything else (help,
takeovers, every mistake) is typer's, which says what is wrong.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

LEVELS = ("debug", "info", "warning", "error")
"""Values of --log-level."""
Kind = Literal["embedded", "paced"]
ENGINES: tuple[Kind, ...] = ("embedded", "paced")
"""Values of --engine: the kinds that pairproxy brings itself."""
COMPLETING = "_PAIRPROXY_COMPLETE"  # set by a shell that wants to know how a word may go on


@dataclass(frozen=True, slots=True)
class UpOptions:
    """What `pairproxy up` was told; the fields are named as its options are."""

    config: Path | None = None
    home: Path | None = None
    log_level: str | None = None
    log_file: Path | None = None
    engine: Kind | None = None
    listen: str | None = None
    takeover: bool = False
    yes: bool = False
    stop_on_eof: bool = False


_CHOICES = {"log_level": LEVELS, "engine": ENGINES}
VALUED = frozenset({"config", "home", "log_file", "listen", *_CHOICES})
"""Those that are read here and have a value; beside them there is only stop_on_eof."""


def options_of(arguments: Sequence[str], environment: Mapping[str, str]) -> UpOptions | None:
    """The options of `up` with such ``arguments``; None: it is another command, or typer is to judge."""
    if not arguments or arguments[0] != "up" or COMPLETING in environment:
        return None
    given = _split(arguments[1:])
    if given is None or any(given[name] not in values for name, values in _CHOICES.items() if name in given):
        return None
    if "listen" in given and "engine" not in given:
        return None
    text = given.get
    return UpOptions(
        config=_path(text("config")),
        home=_path(text("home") or environment.get("PAIRPROXY_HOME")),
        log_level=text("log_level"),
        log_file=_path(text("log_file")),
        engine=next((one for one in ENGINES if one == text("engine")), None),
        listen=text("listen"),
        stop_on_eof="stop_on_eof" in given,
    )


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None


def _split(words: Sequence[str]) -> dict[str, str] | None:
    """Each option and its value; None: not all are such."""
    given: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        option, is_joined, value = word.partition("=")
        name = option.removeprefix("--").replace("-", "_")
        if option != f"--{name.replace('_', '-')}" or name in given:
            return None
        if word == "--stop-on-eof":
            given[name] = ""
            continue
        if not is_joined:
            value = next(rest, "")
        if name not in VALUED or not value or value.startswith("-"):
            return None
        given[name] = value
    return given
