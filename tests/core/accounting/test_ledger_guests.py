"""What the ledger keeps of peers' requests beside this node's own."""

from pairproxy.core.errors import ModelNotFound
from pairproxy.core.models import Outcome, RequestId
from tests.core.accounting.conversation import A, B, Told, asked, dispatch, refuse


def test_guests_do_not_push_out_what_this_node_did() -> None:
    """However many requests of a peer come, our own records keep their places, prefixes and reasons."""
    told = Told(limit_records=8, limit_decisions=8, limit_blocks=8)
    told.arrived(0.0, asked("own", prefix=(1, 2, 3)), dispatch("own", A))
    told.finished(1.0, "own")
    for number in range(100):
        name = f"guest{number}"
        told.arrived(2.0, asked(name, origin=B, prefix=(4, 5)), refuse(name, ModelNotFound("not here")))
    records = told.ledger.records
    assert [record.id for record in records] == ["own", "guest98", "guest99"]
    assert records[0].attempts[0].decision is not None
    assert [record.prefix for record in records] == [(1, 2, 3), (), (4, 5)]
    assert told.ledger.find(RequestId("guest99")) is records[-1]


def test_records_are_in_the_order_of_their_ends_whosever_they_are() -> None:
    """A report reads them so."""
    told = Told(limit_records=8)
    for number, origin in enumerate((None, B, None, B, None)):
        told.arrived(number, asked(f"r{number}", origin=origin), dispatch(f"r{number}", A))
        told.finished(number + 0.5, f"r{number}")
    assert [record.id for record in told.ledger.records] == ["r0", "r1", "r2", "r3", "r4"]
    assert {record.outcome for record in told.ledger.records} == {Outcome.DONE}
