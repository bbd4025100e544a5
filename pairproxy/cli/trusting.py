"""What the commands about paired machines share: options, the store of a home, which peer a word means."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pairproxy.cli.completing import model_names, peer_names
from pairproxy.cli.options import plain

if TYPE_CHECKING:
    from pairproxy.security.peer_record import PeerRecord
    from pairproxy.security.trust import TrustStore

Peer = Annotated[
    str,
    typer.Argument(
        help="Its name or its id, as `pairproxy peers` shows them; the beginning will do.",
        autocompletion=peer_names,
    ),
]
Slots = Annotated[int | None, typer.Option(min=1, help="Slots of this machine that it may hold at once.")]
Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        help="It may use only these models here; * and ? stand for text. May be given repeatedly.",
        autocompletion=model_names,
    ),
]

NOBODY = "No machine is paired with this one. Start with `pairproxy pair` here and `pairproxy join` there."
LEAST = 4  # characters of an id: what people read to each other has eight


def store_of(home: Path) -> "TrustStore | None":
    """The peers of a home, read; None where nothing was ever set up. Raises StoreError."""
    from pairproxy.security.identity import KEY_FILE, load_or_create
    from pairproxy.security.trust import TrustStore

    if not (home / KEY_FILE).exists():
        return None
    store = TrustStore(home, load_or_create(home).device_id)
    store.load()
    return store


def found_in(home: Path, word: str) -> "tuple[TrustStore, PeerRecord]":
    """The store of a home, and the one peer that a name, an id or the beginning of either means.

    Raises StoreError. A name that is the beginning of another peer's id means neither: peers name themselves.
    """
    from pairproxy.core.errors import StoreError

    store = store_of(home)
    if store is None or not store.peers():
        raise StoreError(NOBODY)
    peers = store.peers()
    for found in (
        [one for one in peers if one.name == word or _is_id(one.node, word)],
        [one for one in peers if one.name.casefold() == word.casefold()],
        [one for one in peers if word and one.name.casefold().startswith(word.casefold())],
    ):
        if len(found) == 1:
            return store, found[0]
        if found:
            raise StoreError(f"Several machines are meant by {plain(word)!r}: {_listed(found)}. Use the id.")
    raise StoreError(f"No paired machine is called {plain(word)!r}. There is {_listed(peers)}.")


def named(record: "PeerRecord") -> str:
    """How a sentence calls a peer: its name is its own word, the id is what counts."""
    from pairproxy.security.identity import short_id

    return f'"{plain(record.name)}" (id {short_id(record.node)})'


def share(may_use_me: bool, slots: int | None, models: Iterable[str]) -> str:
    """What a peer may have here, in a few words."""
    if not may_use_me:
        return "no"
    words = [f"{slots} slot{'' if slots == 1 else 's'}"] if slots is not None else []
    words += [plain(pattern) for pattern in models]
    return ", ".join(words) or "yes"


def _is_id(node: str, word: str) -> bool:
    letters = word.replace("-", "").upper()
    return len(letters) >= LEAST and node.startswith(letters)


def _listed(peers: "Iterable[PeerRecord]") -> str:
    return ", ".join(named(one) for one in peers)
