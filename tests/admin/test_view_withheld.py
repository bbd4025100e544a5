from dataclasses import replace

from pairproxy.api.offering import OfferStatus
from pairproxy.core.events import OfferChanged
from pairproxy.peers.book import PeerBook
from pairproxy.security.identity import Identity
from tests.admin.test_view import Recorded
from tests.core.told import document


def test_what_is_withheld_is_told_with_its_reason(book: PeerBook, other: Identity) -> None:
    """Of a peer as it said it; of this node as whoever decides says it."""
    told = Recorded(book)
    told.hears(replace(document(other.device_id, draining=True), withheld="battery"))
    told.tell(OfferChanged(told.at, "drained"))
    told.view.offer = lambda: OfferStatus(withheld="drained", why="It is drained.")
    status = told.view.status()()
    assert status.offer.withheld == "drained"
    assert [(one.withheld, one.withheld_why) for one in status.nodes] == [
        ("drained", "It is drained."),
        ("battery", "it runs on battery"),
    ]
    told.hears(replace(document(other.device_id, draining=True, sequence=2), withheld="moving-house"))
    assert "does not know" in told.view.status()().nodes[1].withheld_why
