import msgspec
import pytest

from pairproxy.admin.holdings import QUANTIZATION_CHARACTERS, KnownNode, holdings, is_named, look
from pairproxy.core.catalogue import node_catalogue
from pairproxy.core.documents import CatalogueEntry, EngineCatalogue
from pairproxy.core.events import CatalogueReported, EngineLost
from pairproxy.core.models import EngineId, ModelName, NodeId, Replica
from pairproxy.core.rules import Rules
from pairproxy.peers.book import PeerBook
from pairproxy.security.identity import Identity
from tests.admin.test_differences import M, engine, node, q
from tests.core.told import GPU, A, Told, document


def listing(entry: CatalogueEntry, kind: str = "ollama") -> tuple[EngineCatalogue, ...]:
    """What an engine lists."""
    return (EngineCatalogue(EngineId(f"{kind}-1"), kind, (entry,)),)


def tags(level: object, digest: str = "1" * 64) -> CatalogueEntry:
    """An entry of /api/tags."""
    text = msgspec.json.encode({"name": M, "digest": digest, "details": {"quantization_level": level}})
    return CatalogueEntry(M, tags=text.decode())


def test_it_sees_this_node_and_each_peer(book: PeerBook, other: Identity) -> None:
    """With their engines; a peer that is not linked is away, whatever it said."""
    told = Told()
    told.hears(document(other.device_id, slots=3))
    own, peer = look(told.scheduler, book.links, "anna", 0.0).nodes
    assert (own.node, own.name, own.is_up, [one.engine for one in own.engines]) == (A, "anna", True, [GPU])
    assert (peer.name, peer.is_up, peer.engines[0].slots) == ("bert", False, 3)
    (link,) = book.links
    link.is_up = True
    assert look(told.scheduler, book.links, "anna", 0.0).nodes[1].is_up


def test_a_peer_that_left_is_remembered_by_what_it_listed(book: PeerBook, other: Identity) -> None:
    """Its state document is gone, its listing is not."""
    told = Told()
    told.tell(CatalogueReported(0.0, node_catalogue(other.device_id, listing(tags("Q8_0")))))
    (held,) = holdings(look(told.scheduler, book.links, "anna", 0.0).nodes[1])
    assert (held.replica, held.is_up, held.quantization) == (
        Replica(M, "sha256:" + "1" * 64),
        False,
        "Q8_0",
    )
    assert (held.slots, held.is_loaded) == (0, False)


def test_a_peer_that_is_not_reached_is_told_by_its_last_document() -> None:
    """It says more than its listing, as long as it is there."""
    listed = listing(tags("Q8_0"))
    (held,) = holdings(node("ben", engine("ollama", q(window=4096)), up=False, listed=listed))
    assert (held.replica.context_tokens, held.quantization, held.is_up) == (4096, "Q8_0", False)


def test_a_silent_engine_of_this_node_keeps_what_it_had(book: PeerBook) -> None:
    """But it is not there."""
    told = Told()
    told.tell(EngineLost(0.0, GPU))
    (held,) = holdings(look(told.scheduler, (), "anna", 0.0).nodes[0])
    assert (held.place.engine, held.is_up, held.slots) == (GPU, False, 0)


def test_what_stays_here_is_told() -> None:
    """By the patterns, or all of it by the policy."""
    assert look(Told(rules=Rules(local_only=("hr-*",))).scheduler, (), "a", 0.0).local_only == ("hr-*",)
    assert look(Told(rules=Rules(policy="local-only")).scheduler, (), "a", 0.0).local_only == ("*",)


def test_the_quantization_is_the_listing_s() -> None:
    """Of Ollama's and LM Studio's; a model under an alias has that of the name it is listed by."""
    (held,) = holdings(node("anna", engine("ollama", q()), listed=listing(tags("Q4_K_M"))))
    assert held.quantization == "Q4_K_M"
    entry = CatalogueEntry(M, v0=msgspec.json.encode({"id": M, "quantization": "Q8_0"}).decode())
    (held,) = holdings(node("anna", engine("lmstudio", q()), listed=listing(entry, "lmstudio")))
    assert held.quantization == "Q8_0"
    mapped = Replica(ModelName("other:1"), "sha256:1", called=M.upper())
    (held,) = holdings(node("anna", engine("ollama", mapped), listed=listing(tags("Q4_K_M"))))
    assert held.quantization == "Q4_K_M"


@pytest.mark.parametrize("level", [None, 7, "\x1b[2J", {"a": 1}])
def test_odd_words_of_another_machine_are_dropped(level: object) -> None:
    """What is no short printable text is no quantization."""
    (held,) = holdings(node("anna", engine("ollama", q()), listed=listing(tags(level))))
    assert held.quantization == ""


def test_long_words_are_cut() -> None:
    """Another machine writes them."""
    (held,) = holdings(node("anna", engine("ollama", q()), listed=listing(tags("Q" * 999))))
    assert len(held.quantization) == QUANTIZATION_CHARACTERS


def test_an_engine_that_lists_nothing_else_says_nothing() -> None:
    """llama-server has only OpenAI's list."""
    entry = CatalogueEntry(M, openai='{"id": "x"}')
    away = KnownNode(NodeId("ben"), "ben", False, listed=listing(entry, "llamacpp"))
    (held,) = holdings(away)
    assert (held.replica.identity, held.quantization) == ("", "")


def test_content_counts_as_named_only_if_others_could_have_it() -> None:
    """An identity that is good for one engine in one life names nothing."""
    assert [is_named(q(one)) for one in ("sha256:1", "openai:a/b", "only-here:1", "")] == [
        True,
        True,
        False,
        False,
    ]
