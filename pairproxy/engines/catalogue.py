"""What an engine lists, entry by entry in its own words, for the nodes that will show it to their clients."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from pairproxy.core.catalogue import PATHS, checked, read_listing
from pairproxy.core.dialects.ollama_catalogue import ModelCard, openai_entry, ps_reply, tags_entry
from pairproxy.core.dialects.translate import write_json
from pairproxy.core.documents import CatalogueEntry, Listing
from pairproxy.core.errors import UpstreamError
from pairproxy.core.models import ModelName
from pairproxy.core.replicas import canonical_name
from pairproxy.engines.ask import ask_bytes

NEVER = "2318-01-01T00:00:00Z"  # when the model is unloaded; Ollama shows such a date for keep_alive -1
TRIES = 3  # an engine that is just starting may fail once; one that has no such listing fails always
_VOLATILE = frozenset({"created", "permission"})
"""llama.cpp and vLLM put the time of asking into every entry, and vLLM ids of its own making."""

Texts = Mapping[ModelName, str]
_PATH = {listing: path for path, listing in PATHS.items()}


class OtherListings:
    """The listings of one engine that its probe does not need.

    They are asked only when the one that the probe does need has changed: LM Studio shows every question in
    its window, and all its listings change together.
    """

    def __init__(self, host: str, port: int, *listings: Listing) -> None:
        self._address = (host, port)
        self._listings = listings
        self._basis = b""
        self._tries = TRIES
        self._texts: dict[Listing, Texts] = {}

    async def beside(self, basis: bytes) -> dict[Listing, Texts]:
        """What those hold that are answered; ``basis`` is the reply that the probe got."""
        if basis != self._basis:
            self._basis, self._tries, self._texts = basis, 0, {}
        missing = [listing for listing in self._listings if listing not in self._texts]
        if missing and self._tries < TRIES:
            self._tries += 1
            for listing in missing:
                try:
                    texts = texts_of(listing, await ask_bytes(*self._address, _PATH[listing]))
                except UpstreamError:
                    continue
                self._texts[listing] = texts
        return dict(self._texts)


class SteadyTexts:
    """Entries that keep their text while nothing but the time of asking changed in them."""

    def __init__(self) -> None:
        self._last: Texts = {}

    def of(self, texts: Texts) -> Texts:
        """The same entries, each as it was first told."""
        self._last = {name: self._steady(name, text) for name, text in texts.items()}
        return self._last

    def _steady(self, name: ModelName, text: str) -> str:
        last = self._last.get(name)
        return last if last is not None and _lasting(last) == _lasting(text) else text


def texts_of(listing: Listing, body: bytes) -> Texts:
    """Each entry of an engine's reply by its model; of two with one name the first counts."""
    reply = read_listing(listing, body)
    texts: dict[ModelName, str] = {}
    for name, text in reply.entries if reply is not None else ():
        if name is not None:
            texts.setdefault(name, text)
    return texts


def entries_of(models: Iterable[ModelName], texts: Mapping[Listing, Texts]) -> tuple[CatalogueEntry, ...]:
    """One entry for each model, with what every listing says of it."""
    return tuple(
        checked(
            CatalogueEntry(model, **{listing.value: held.get(model) for listing, held in texts.items()})
            for model in models
        )
    )


def card_entry(card: ModelCard, is_loaded: bool) -> CatalogueEntry:
    """The entry of an engine of our own, as its Ollama face lists its model."""
    created = datetime.fromisoformat(card.modified_at)
    loaded = ps_reply(card, NEVER)["models"][0] if is_loaded else None
    return CatalogueEntry(
        canonical_name(card.name),
        tags=write_json(tags_entry(card)).decode(),
        ps=write_json(loaded).decode() if loaded is not None else None,
        openai=write_json(openai_entry(card, round(created.timestamp()))).decode(),
    )


def _lasting(text: str) -> dict[str, Any]:
    entry: dict[str, Any] = msgspec.json.decode(text)
    return {key: value for key, value in entry.items() if key not in _VOLATILE}
