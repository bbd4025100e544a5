"""Names that the shell completes: of paired machines, of keys, of models.

Whoever presses the tab key waits for it: nothing here takes long or says a word. Names come from files of the
home; those of models from the daemon, which answers within a moment or not at all.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

import typer

from pairproxy.cli.options import home_or_default, plain

ANSWER_S = 0.5  # for the daemon; a person who waits longer types on
MOST = 200  # names; a screen shows fewer


def peer_names(context: typer.Context, incomplete: str) -> list[str]:
    """The paired machines."""
    return _found(context, incomplete, _peers)


def key_names(context: typer.Context, incomplete: str) -> list[str]:
    """The keys of clients."""
    return _found(context, incomplete, _keys)


def model_names(context: typer.Context, incomplete: str) -> list[str]:
    """The models that any node has."""
    return _found(context, incomplete, _models)


def _found(context: typer.Context, incomplete: str, names: Callable[[Path], Iterable[str]]) -> list[str]:
    try:
        home = home_or_default(context.params.get("home"))
        found = [plain(name) for name in names(home) if name.startswith(incomplete)]
    except Exception:  # noqa: BLE001 whatever is wrong with the home, the command itself will say it
        return []
    return found[:MOST]


def _peers(home: Path) -> Iterable[str]:
    from pairproxy.cli.trusting import store_of

    store = store_of(home)
    return [one.name for one in store.peers()] if store is not None else []


def _keys(home: Path) -> Iterable[str]:
    from pairproxy.security.client_keys import ClientKeys

    return [one.name for one in ClientKeys(home).read()]


def _models(home: Path) -> Iterable[str]:
    from pairproxy.api.client import get_models

    return [one.model for one in get_models(home, ANSWER_S).models]
