"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from pairproxy.tui.words import plain

__all__ = ["Home", "Json", "home_or_default", "plain"]

Home = Annotated[
    Path | None,
    typer.Option(
        help="Directory of identity, trust and settings. Default: the system's place for user data.",
        envvar="PAIRPROXY_HOME",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]


def home_or_default(home: Path | None) -> Path:
    """The home directory to use."""
    from pairproxy.config import default_home

    return home or default_home()
