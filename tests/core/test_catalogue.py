import json
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairproxy.core.catalogue import (
    ENTRY_BYTES,
    MAX_ENTRIES,
    PATHS,
    CatalogueTable,
    can_show,
    checked,
    is_shown,
    listing_at,
    model_name,
    node_catalogue,
    only_listing,
    read_catalogue,
    read_listing,
    shown_model,
)
from pairproxy.core.documents import CatalogueEntry, EngineCatalogue, Listing, ReplicaState, StateDocument
from pairproxy.core.models import EngineId, ModelName, NodeId, Place, Replica
from tests.core.told import FAST, GPU, B, C
from tests.core.told import document as told_document

N = ModelName("n:1")


def entry(model: str = "n:1", **texts: str) -> CatalogueEntry:
    """An entry in /api/tags, and what else is said."""
    return CatalogueEntry(ModelName(model), **{"tags": json.dumps({"name": model}), **texts})


def engine(*entries: CatalogueEntry, kind: str = "ollama") -> EngineCatalogue:
    """What the engine GPU lists."""
    return EngineCatalogue(GPU, kind, entries)


def document(node: NodeId, *models: str) -> StateDocument:
    """A node that can run these models now."""
    told = told_document(node)
    states = tuple(ReplicaState(Replica(ModelName(model), "sha256:1"), True, FAST) for model in models)
    return replace(told, engines=(replace(told.engines[0], engine=GPU, replicas=states),))


def names(table: CatalogueTable, *there: StateDocument, listing: Listing = Listing.TAGS) -> list[str]:
    """What a table lists with these nodes there."""
    return [one.model for _, one in table.entries(listing, there, has_show=True)]


# --- replies --------------------------------------------------------------------------------------------

numbers = st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(), lambda inner: st.lists(inner, max_size=3)
)


@given(
    st.lists(st.dictionaries(st.text(max_size=5), values, max_size=4), max_size=4),
    st.sampled_from(list(Listing)),
    st.sampled_from([None, 1, 4]),
    st.booleans(),
)
def test_no_byte_of_an_entry_changes(
    entries: list[dict[str, object]], listing: Listing, indent: int | None, is_ascii: bool
) -> None:
    """However an engine writes its JSON, each entry is found in the merged reply as it was."""
    key = "data" if listing in (Listing.OPENAI, Listing.V0) else "models"
    texts = [json.dumps(one, indent=indent, ensure_ascii=is_ascii) for one in entries]
    listed = read_listing(listing, f'{{"{key}": [{" , ".join(texts)}], "object":"list"}}\n'.encode())
    assert listed is not None
    added = '{"added": 1}'
    whole = ",".join([*texts, added])
    assert listed.followed_by([added]) == f'{{"{key}":[{whole}],"object":"list"}}'.encode()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"error":"Unexpected endpoint or method. (GET /api/tags)"}',
        b'{"models":5}',
        b"{",
        b"\xff",
    ],
)
def test_what_is_no_listing_is_not_read_as_one(body: bytes) -> None:
    """LM Studio answers 200 with an error to what it does not know; that has to stay what it is."""
    assert read_listing(Listing.TAGS, body) is None


def test_an_empty_ollama_says_null() -> None:
    """Its ``"data":null`` is a list with nothing in it."""
    listed = read_listing(Listing.OPENAI, b'{"object":"list","data":null}')
    assert listed is not None
    assert listed.models == frozenset()
    assert listed.followed_by(['{"id":"a"}']) == b'{"object":"list","data":[{"id":"a"}]}'


def test_names_are_compared_as_ollama_does() -> None:
    """The names of a reply are canonical, whatever key holds them; what has none is in no set."""
    for listing, key, field in ((Listing.PS, "models", "name"), (Listing.V1, "models", "key")):
        listed = read_listing(
            listing, b'{"%s":[{"%s":"Library/M"},{"x":1},7]}' % (key.encode(), field.encode())
        )
        assert listed is not None
        assert listed.models == {"m:latest"}
        assert len(listed.entries) == 3


def test_a_listing_of_peers_alone_has_the_form_of_an_engine() -> None:
    """Where no engine answers, OpenAI's listing still says that it is a list."""
    assert only_listing(Listing.OPENAI, ['{"id":"a"}']) == b'{"object":"list","data":[{"id":"a"}]}'
    assert only_listing(Listing.TAGS, []) == b'{"models":[]}'


def test_each_listing_has_its_path() -> None:
    """And llama.cpp a second one for OpenAI's."""
    assert {listing_at(path) for path in PATHS} == set(Listing)
    assert (listing_at("/models"), listing_at("/api/version")) == (Listing.OPENAI, None)


@pytest.mark.parametrize(
    ("body", "model"),
    [
        (b'{"model":"M"}', "m:latest"),
        (b'{"name":"m:1"}', "m:1"),
        (b'{"model":"","name":"m:1"}', "m:1"),
        (b'{"model":"a:1","name":"b:1","verbose":true}', "a:1"),
        (b'{"model":"a:1","Model":"b:1"}', None),
        (b'{"NAME":"a:1"}', None),
        (b'{"model":1}', None),
        (b"{}", None),
        (b"[]", None),
        (b"not json", None),
    ],
)
def test_the_model_that_shall_be_shown(body: bytes, model: str | None) -> None:
    """``model``, else the older ``name``; nothing where two readers could read two things."""
    assert shown_model(body) == model


# --- between nodes --------------------------------------------------------------------------------------


def test_a_catalogue_comes_over_as_it_is() -> None:
    """Written, sent and read it is the same, and its name is that of its content."""
    told = node_catalogue(B, (engine(entry(openai='{"id":"N:1"}')),))
    assert read_catalogue(msgspec.json.encode(told)) == told
    assert node_catalogue(B, told.engines).content == told.content
    assert node_catalogue(B, (engine(entry("o:1")),)).content != told.content


def test_bad_entries_are_dropped_one_by_one() -> None:
    """A text that is no JSON, of another model or too long is dropped; an entry without any text, too."""
    long = json.dumps({"name": "n:1", "x": "y" * ENTRY_BYTES})
    sound = [
        entry(ps='{"name":"n:1"', openai='{"id":"other:1"}', v0="[1]"),
        entry("N:1"),
        CatalogueEntry(N, tags=long),
        CatalogueEntry(N, tags='{"name":"n:1"}, {"name":"smuggled:1"}'),
    ]
    assert list(checked(sound)) == [entry()]


def test_what_is_no_catalogue_is_none() -> None:
    """Other JSON, no JSON, and an engine that is none is left out."""
    assert read_catalogue(b"[]") is read_catalogue(b"\xff") is read_catalogue(b'{"node":"b"}') is None
    told = read_catalogue(
        b'{"node":"b","content":"c","engines":[5,{"engine":"e","kind":"ollama","entries":[]}]}'
    )
    assert told is not None
    assert told.engines == (EngineCatalogue(EngineId("e"), "ollama", ()),)


def test_there_is_an_end_to_what_a_peer_may_list() -> None:
    """MAX_ENTRIES of one engine."""
    assert len(list(checked(entry(f"m:{number}") for number in range(MAX_ENTRIES + 5)))) == MAX_ENTRIES


@given(st.binary(max_size=200))
def test_nothing_that_a_peer_sends_is_a_fault(body: bytes) -> None:
    """Any bytes are a catalogue or none."""
    read_catalogue(body)
    read_listing(Listing.TAGS, body)
    shown_model(body)


def test_names_that_are_none() -> None:
    """Empty, endless and unprintable ones."""
    assert [model_name(text) for text in ("", " ", "a\nb", "x" * 300, None, 5)] == [None] * 6


# --- the table ------------------------------------------------------------------------------------------


def test_a_peer_that_is_not_there_lists_nothing() -> None:
    """What is held of it is listed again when it is back, without asking anew."""
    table = CatalogueTable()
    table.hold(node_catalogue(B, (engine(entry()),)))
    assert names(table) == []
    assert names(table, document(B, "n:1")) == ["n:1"]
    assert table.content(B) != ""
    assert table.content(C) == ""


def test_only_what_the_peer_can_run_now_is_listed() -> None:
    """A model that left its state document is not offered, however old the catalogue is."""
    table = CatalogueTable()
    table.hold(node_catalogue(B, (engine(entry("n:1"), entry("o:1")),)))
    assert names(table, document(B, "o:1")) == ["o:1"]


def test_entries_come_in_the_order_of_the_nodes_with_their_places() -> None:
    """So that a listing and the question that follows it mean the same peer."""
    table = CatalogueTable()
    for node in (C, B):
        table.hold(node_catalogue(node, (engine(entry()),)))
    there = [document(node, "n:1") for node in (C, B)]
    found = list(table.entries(Listing.TAGS, there, has_show=True))
    assert [place for place, _ in found] == [Place(B, GPU), Place(C, GPU)]


def test_no_listing_is_translated_into_another() -> None:
    """A model without an entry for a listing is not in it."""
    table = CatalogueTable()
    table.hold(node_catalogue(B, (engine(entry()),)))
    assert names(table, document(B, "n:1"), listing=Listing.V0) == []


def test_what_cannot_be_shown_is_not_listed_where_it_will_be_asked() -> None:
    """Ollama's clients ask to be shown each model; LM Studio has no answer to that."""
    table = CatalogueTable()
    listed = CatalogueEntry(N, openai='{"id":"n:1"}')
    table.hold(node_catalogue(B, (engine(listed, kind="lmstudio"),)))
    there = document(B, "n:1")
    assert names(table, there, listing=Listing.OPENAI) == []
    found = table.entries(Listing.OPENAI, [there], has_show=False)
    assert [one.model for _, one in found] == [N]


def test_who_asks_to_be_shown() -> None:
    """Clients of Ollama and of what speaks like it, and who knows of an engine that does not answer."""
    assert [is_shown(Listing.OPENAI, kind) for kind in ("ollama", "paced", "", "lmstudio", "openai")] == [
        True,
        True,
        True,
        False,
        False,
    ]
    assert is_shown(Listing.TAGS, "lmstudio")
    assert not is_shown(Listing.V0, "ollama")
    assert can_show("embedded", entry())
    assert not can_show("llamacpp", entry())
    assert not can_show("ollama", CatalogueEntry(N, openai="{}"))
