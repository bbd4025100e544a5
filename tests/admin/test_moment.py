from pairproxy.admin.moment import caches_of, engines_of, look
from pairproxy.core.accounting.ledger import Ledger
from pairproxy.core.accounting.works import slots_of
from pairproxy.core.commands import Command
from pairproxy.core.events import Event
from pairproxy.core.models import ModelName, NodeId
from tests.core.told import FAST, GPU, A, M, Told, ask, at, document

PEER = NodeId("b")


class Recorded(Told):
    """A scheduler with a peer, whose ledger hears what it is told."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        super().__init__()
        self.hears(document(PEER, slots=3, rates=FAST))

    def tell(self, event: Event) -> list[Command]:
        commands = super().tell(event)
        self.ledger.record(event, commands)
        return commands


def test_it_stays_as_it_was() -> None:
    """What ends and arrives later is not in it, nor what begins to run."""
    told = Recorded()
    told.arrives(ask("runs", local_only=True))
    told.arrives(ask("waits", local_only=True))
    known = look(told.scheduler, told.ledger, told.at)
    told.begins("runs")
    told.finishes("runs", tokens=10)
    told.arrives(ask("late"))
    assert (known.records, [one.id for one in known.opened]) == ((), ["runs", "waits"])
    assert known.running == {"runs"}
    (group,) = known.groups()
    assert (group.id, group.ended) == ("runs", ())


def test_only_places_that_have_a_model_could_serve_it() -> None:
    """Their slots add up by node."""
    told = Recorded()
    known = look(told.scheduler, told.ledger, told.at)
    assert known.places_of([ModelName("other:latest")]) == {}
    places = known.places_of([M, ModelName("other:latest")])
    assert slots_of(places) == {A: 1, PEER: 3}


def test_each_engine_is_known_with_its_cache() -> None:
    """This node's and its peers'; a cache is as large as engines of its kind have them."""
    told = Recorded()
    engines = engines_of(told.scheduler, told.at)
    assert [*engines] == [at(A), at(PEER)]
    assert [state.engine for state, _ in engines.values()] == [GPU, GPU]
    assert look(told.scheduler, told.ledger, told.at).kinds == {at(A): "paced", at(PEER): "paced"}
    assert all(tokens > 0 for tokens in caches_of(engines).values())
