"""What an origin tells of its queue, and whether it may use a peer's free slot at once."""

from dataclasses import replace

from pairproxy.core.asking import PATIENCE_S
from pairproxy.core.documents import Promise, StateDocument
from pairproxy.core.models import EngineId, ModelName, NodeId
from tests.core.told import FAST, SLOW, A, B, C, M, Told, ask, document, queued, sent


def asking(
    *promises: Promise, slots: int = 1, frees: tuple[float, ...] = (), yours: int = 0, sequence: int = 1
) -> StateDocument:
    """B's document, whose slots have to be asked for."""
    told = document(B, slots=slots, frees=frees, sequence=sequence)
    engine = replace(told.engines[0], asks=True, promises=promises, yours=yours)
    return replace(told, engines=(engine,))


def wanted_of(told: Told, reader: NodeId) -> list[tuple[str, int, int]]:
    """(model, count, how many of the reader's slots) of everything that A tells it to want."""
    published = told.scheduler.document_for(reader, "epoch", 1, "name", told.at)
    return [(one.model, one.count, one.yours) for one in published.wanted]


def test_a_slot_that_has_to_be_asked_for_is_used_when_it_is_promised() -> None:
    """Until then its owner is told, at once, and the request stays in the queue."""
    told = Told(speed=None)
    told.hears(asking())
    assert queued(told.arrives(ask("r"))) == [("r", 0)]
    assert told.scheduler.pressing == [B]
    assert wanted_of(told, B) == [(M, 1, 1)]
    assert wanted_of(told, C) == [(M, 1, 0)]
    told.at = 0.004
    assert sent(told.hears(asking(Promise(A, 0.25), sequence=2))) == [("r", B)]
    assert wanted_of(told, B) == []


def test_a_promise_is_good_for_one_request() -> None:
    """Also while the owner's document does not yet show that it was used."""
    told = Told(speed=None)
    told.hears(asking(slots=3))
    for name in "rst":
        told.arrives(ask(name))
    one = asking(Promise(A, 0.25), slots=3, sequence=2)
    assert sent(told.hears(one)) == [("r", B)]
    assert sent(told.hears(replace(one, sequence=3))) == [], "sent, and not seen there yet"
    seen = asking(Promise(A, 0.25), slots=3, yours=1, sequence=4)
    assert sent(told.hears(seen)) == [("s", B)]


def test_two_promises_are_used_in_one_walk_and_not_three() -> None:
    """Each dispatch of the walk uses one."""
    told = Told(speed=None)
    told.hears(asking(slots=3))
    for name in "rst":
        told.arrives(ask(name))
    two = asking(Promise(A, 0.25), Promise(A, 0.2), slots=3, sequence=2)
    assert sent(told.hears(two)) == [("r", B), ("s", B)]


def test_a_slot_promised_to_another_is_busy_until_that_ends() -> None:
    """The plan reckons with it: the next best place gets the request, or it waits that long."""
    told = Told(speed=SLOW)
    told.hears(asking(Promise(C, 0.2)))
    assert sent(told.arrives(ask("r"))) == [], "the fast slot in a moment beats the slow one now"
    assert sent(told.hears(asking(frees=(60.0,), sequence=2))) == [("r", A)]


def test_an_owner_that_answers_nothing_is_tried_after_a_while() -> None:
    """It may not hear this node at all."""
    told = Told(speed=None)
    told.hears(asking())
    told.arrives(ask("r"))
    assert sent(told.passes(PATIENCE_S / 2)) == []
    assert sent(told.wakes()) == [("r", B)]
    assert told.at == PATIENCE_S


def test_who_need_not_ask_does_not() -> None:
    """An owner that says nothing of asking gets the request at once."""
    told = Told(speed=None)
    told.hears(document(B))
    assert sent(told.arrives(ask("r"))) == [("r", B)]
    assert told.scheduler.pressing == []


def test_wants_are_told_by_model_without_what_must_stay() -> None:
    """Counts, tokens, the age of the oldest, eight prefixes; what may run here only is nobody's business."""
    told, other = Told(slots=1, speed=SLOW), ModelName("other:latest")
    told.hears(document(B, rates=FAST, frees=(50.0,)))
    told.hears(document(C, model=other, frees=(50.0,)))
    told.arrives(ask("runs"))
    for number in range(10):
        told.at = float(number)
        told.arrives(replace(ask(f"w{number}", prompt=200, limit=50), prefix=(7, number)))
    told.arrives(ask("stays", local_only=True))
    told.arrives(replace(ask("bound"), stays="why", engine=EngineId("gpu")))
    told.arrives(ask("other", model=other))
    mine, others = told.scheduler.document_for(B, "epoch", 1, "name", 10.0).wanted
    assert (mine.model, mine.count, mine.prefill_tokens, mine.decode_tokens) == (M, 10, 2000.0, 500.0)
    assert (mine.oldest_age_s, mine.prefixes) == (10.0, tuple(range(8)))
    assert (others.model, others.count, others.oldest_age_s) == (other, 1, 1.0)
