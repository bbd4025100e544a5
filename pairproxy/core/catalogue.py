"""Listings of models: taken apart without changing a byte of an entry, told to other nodes, merged.

An entry is the JSON text that an engine gave it. It is never translated into another listing's form: clients
read some of these forms with closed sets of values, and one that we made up would cost them the whole list.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec

from pairproxy.core.documents import CatalogueEntry, EngineCatalogue, Listing, NodeCatalogue, StateDocument
from pairproxy.core.models import EngineId, ModelName, NodeId, Place
from pairproxy.core.replicas import canonical_name

CATALOGUE_BYTES = 4 * 1024 * 1024  # of one node on the wire; 500 models with all their details are 0.5 MB
MAX_ENTRIES = 1000  # of one engine; the largest collections people show have about 200
MAX_ENGINES = 32  # of one node; nobody runs more
ENTRY_BYTES = 64 * 1024  # of one entry; they have about 600
NAME_CHARACTERS = 256  # Ollama allows four parts of 80 at most

PATHS = {
    "/api/tags": Listing.TAGS,
    "/api/ps": Listing.PS,
    "/v1/models": Listing.OPENAI,
    "/api/v0/models": Listing.V0,
    "/api/v1/models": Listing.V1,
}
"""Where each listing is asked for."""
_ALSO = {"/models": Listing.OPENAI}  # llama.cpp's own name for it

_LIST_KEY = {
    Listing.TAGS: "models",
    Listing.PS: "models",
    Listing.OPENAI: "data",
    Listing.V0: "data",
    Listing.V1: "models",
}
_NAME_KEY = {
    Listing.TAGS: "name",
    Listing.PS: "name",
    Listing.OPENAI: "id",
    Listing.V0: "id",
    Listing.V1: "key",
}
_SHOWS = frozenset({"ollama", "embedded", "paced"})
_SHOWS_NOT = frozenset({"lmstudio", "llamacpp", "openai"})

_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_list = msgspec.json.Decoder(list[msgspec.Raw] | None).decode
_UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)


@dataclass(frozen=True, slots=True)
class ListingReply:
    """An engine's reply taken apart: its top-level fields as they came, and its entries with their names."""

    listing: Listing
    fields: dict[str, msgspec.Raw]
    entries: tuple[tuple[ModelName | None, str], ...]

    @property
    def models(self) -> frozenset[ModelName]:
        """The canonical names in it."""
        return frozenset(name for name, _ in self.entries if name is not None)

    def followed_by(self, more: Iterable[str]) -> bytes:
        """The reply with these entries after its own."""
        joined = "[" + ",".join([*(text for _, text in self.entries), *more]) + "]"
        replaced = {**self.fields, _LIST_KEY[self.listing]: msgspec.Raw(joined.encode())}
        return msgspec.json.encode(replaced)


def listing_at(path: str) -> Listing | None:
    """The listing that a path asks for."""
    return PATHS.get(path) or _ALSO.get(path)


def read_listing(listing: Listing, body: bytes) -> ListingReply | None:
    """Take an engine's reply apart; None if it is no such listing."""
    key = _LIST_KEY[listing]
    try:
        found = _decode_fields(body)
        if key not in found:
            return None
        texts = [bytes(raw).decode() for raw in _decode_list(found[key]) or ()]
    except _UNREADABLE:
        return None
    return ListingReply(listing, found, tuple((listed_name(listing, text), text) for text in texts))


def only_listing(listing: Listing, texts: Iterable[str]) -> bytes:
    """A listing of these entries alone, for an engine that does not answer."""
    around = {"object": msgspec.Raw(b'"list"')} if listing is Listing.OPENAI else {}
    empty = {**around, _LIST_KEY[listing]: msgspec.Raw(b"[]")}
    return ListingReply(listing, empty, ()).followed_by(texts)


def listed_name(listing: Listing, text: str) -> ModelName | None:
    """The canonical name in an entry's text; None if it is no JSON object with one."""
    try:
        entry = msgspec.json.decode(text)
    except _UNREADABLE:
        return None
    return model_name(entry.get(_NAME_KEY[listing])) if isinstance(entry, dict) else None


def model_name(text: Any) -> ModelName | None:
    """The canonical name, or None for what cannot be one."""
    if not isinstance(text, str) or not text.isprintable() or not 0 < len(text.strip()) <= NAME_CHARACTERS:
        return None
    return canonical_name(text)


def shown_model(body: bytes) -> ModelName | None:
    """Which model a body for POST /api/show asks about; None if that cannot be told for sure.

    Ollama reads ``model``, else the older ``name``, and matches keys without case; a second spelling could
    be read in two ways.
    """
    try:
        fields = _decode_fields(body)
        asked = [key for key in fields if key.lower() in ("model", "name")]
        if any(key not in ("model", "name") for key in asked):
            return None
        texts = [msgspec.json.decode(fields[key], type=str) for key in sorted(asked)]
    except _UNREADABLE:
        return None
    return next((model_name(text) for text in texts if text), None)


def can_show(kind: str, entry: CatalogueEntry) -> bool:
    """Whether POST /api/show is answered for the model by an engine of this kind."""
    return kind in _SHOWS and entry.tags is not None


def is_shown(listing: Listing, kind: str) -> bool:
    """Whether the clients of an engine of this kind ask to be shown what this listing holds.

    Of a kind that is not known (``""``, the engine does not answer) more is asked rather than less.
    """
    return listing in (Listing.TAGS, Listing.PS) or (listing is Listing.OPENAI and kind not in _SHOWS_NOT)


# --- between nodes --------------------------------------------------------------------------------------


def node_catalogue(node: NodeId, engines: tuple[EngineCatalogue, ...]) -> NodeCatalogue:
    """What a node tells the others."""
    content = hashlib.sha256(msgspec.json.encode(engines)).hexdigest()[:16]
    return NodeCatalogue(node, content, engines)


def read_catalogue(body: bytes) -> NodeCatalogue | None:
    """What a node told, without what is odd in it; None if it is no catalogue at all."""
    try:
        told = msgspec.json.decode(body, type=_Node)
    except _UNREADABLE:
        return None
    engines = tuple(engine for raw in told.engines[:MAX_ENGINES] if (engine := _engine(raw)) is not None)
    return NodeCatalogue(NodeId(told.node), told.content, engines)


def checked(entries: Iterable[CatalogueEntry]) -> Iterator[CatalogueEntry]:
    """MAX_ENTRIES at most, each without the texts that are too long or are not of its model."""
    for entry in islice(entries, MAX_ENTRIES):
        texts = dict(_sound_texts(entry))
        if texts and model_name(entry.model) == entry.model:
            yield CatalogueEntry(entry.model, **texts)


class CatalogueTable:
    """What each peer's engines list, as last told. Whether the peer is there, others know."""

    def __init__(self) -> None:
        self._held: dict[NodeId, NodeCatalogue] = {}

    def hold(self, catalogue: NodeCatalogue) -> None:
        """Take in what a peer told."""
        self._held[catalogue.node] = catalogue

    def forget(self, node: NodeId) -> None:
        """Let go of what a peer told."""
        self._held.pop(node, None)

    def held(self, node: NodeId) -> NodeCatalogue | None:
        """What a peer told last, also of one that is not there now."""
        return self._held.get(node)

    def content(self, node: NodeId) -> str:
        """The name of what is held of a peer; "": nothing."""
        held = self._held.get(node)
        return held.content if held is not None else ""

    def entries(
        self, listing: Listing, there: Iterable[StateDocument], *, has_show: bool
    ) -> Iterator[tuple[Place, CatalogueEntry]]:
        """The entries that peers have for a listing, of the models that they can run now.

        ``there`` are the state documents of the peers that take requests. ``has_show``: only those for
        which /api/show is answered.
        """
        for document in sorted(there, key=lambda document: document.node):
            held = self._held.get(document.node)
            runs = {
                engine.engine: {state.replica.model for state in engine.replicas}
                for engine in document.engines
            }
            for engine in held.engines if held is not None else ():
                for entry in engine.entries:
                    is_there = entry.model in runs.get(engine.engine, ()) and entry.text(listing) is not None
                    if is_there and (can_show(engine.kind, entry) or not has_show):
                        yield Place(document.node, engine.engine), entry


class _Node(msgspec.Struct):
    node: str
    content: str
    engines: list[msgspec.Raw]


class _Engine(msgspec.Struct):
    engine: str
    kind: str
    entries: list[msgspec.Raw]


def _engine(raw: msgspec.Raw) -> EngineCatalogue | None:
    try:
        told = msgspec.json.decode(raw, type=_Engine)
    except _UNREADABLE:
        return None
    return EngineCatalogue(EngineId(told.engine), told.kind, tuple(checked(_entries(told.entries))))


def _entries(raws: Iterable[msgspec.Raw]) -> Iterator[CatalogueEntry]:
    for raw in raws:
        try:
            yield msgspec.json.decode(raw, type=CatalogueEntry)
        except _UNREADABLE:
            continue


def _sound_texts(entry: CatalogueEntry) -> Iterator[tuple[str, str]]:
    for listing in Listing:
        text = entry.text(listing)
        if text is None or len(text.encode(errors="replace")) > ENTRY_BYTES:
            continue
        if listed_name(listing, text) == entry.model:
            yield listing.value, text
