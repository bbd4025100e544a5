"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

Home = Annotated[
    Path | None,
    typer.Option(
        help="Directory of identity, trust and settings. Default: the system's place for user data.",
        envvar="PAIRPROXY_HOME",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]


def plain(text: str) -> str:
    """What others named or wrote, made harmless for a terminal: one line without control characters."""
    return "".join(character for character in " ".join(text.split()) if character.isprintable())


def home_or_default(home: Path | None) -> Path:
    """The home directory to use."""
    from pairproxy.config import default_home

    return home or default_home()
