import pytest

from pairproxy.admin.view import View
from pairproxy.core.accounting.ledger import Ledger
from pairproxy.core.accounting.throughput import Throughput
from pairproxy.core.commands import Command
from pairproxy.core.events import DrainStarted, EngineLost, EngineReported, Event
from pairproxy.core.models import ModelName, NodeId
from pairproxy.peers.book import PeerBook
from pairproxy.security.identity import Identity
from tests.core.told import FAST, GPU, SLOW, A, M, Told, ask, document, report


class Recorded(Told):
    """A scheduler whose ledger hears what it is told, and the view of both."""

    def __init__(self, book: PeerBook, *, speed: bool = True) -> None:
        self.ledger = Ledger()
        self.written: dict[str, int] = {}  # tokens that came so far, as a meter counts them
        self.throughput = Throughput(lambda attempt: lambda: self.written.get(attempt.request, 0))
        super().__init__(speed=SLOW if speed else None)
        self.view = View(
            "anna",
            self.scheduler,
            self.ledger,
            book,
            lambda: "mDNS is off",
            lambda: 4712,
            lambda: self.at,
            lambda: 0.5,
            self.throughput,
        )
        self.view.client_ports = {"gpu": 4711}

    def tell(self, event: Event) -> list[Command]:
        commands = super().tell(event)
        self.ledger.record(event, commands)
        self.throughput.record(event, commands)
        return commands


def test_a_fresh_node_shows_itself_and_its_paired_peers(book: PeerBook, other: Identity) -> None:
    """Nothing ran yet: no run, no requests; a peer that was not heard is down, its address is known."""
    told = Recorded(book)
    told.at = 7.0
    status = told.view.status()()
    assert (status.node, status.name, status.uptime_s, status.policy) == (A, "anna", 7.0, "fastest-finish")
    assert (status.requests_done, status.queue_length, status.running, status.last_run) == (0, 0, (), None)
    assert (status.discovery_problem, status.unpaired) == ("mDNS is off", {"STRANGER": "10.0.0.66:1"})
    own, peer = status.nodes
    (engine,) = own.engines
    assert (own.is_self, own.is_up, engine.engine, engine.port) == (True, True, "gpu", 4711)
    (replica,) = engine.replicas
    assert (replica.prefill_tokens_per_s, replica.decode_tokens_per_s) == pytest.approx((250.0, 25.0))
    assert (peer.node, peer.name, peer.is_up, peer.engines) == (other.device_id, "bert", False, ())
    assert (peer.address, peer.found_by, peer.age_s) == ("10.0.0.7:11634", None, None)


def test_how_late_the_event_loop_was_is_told(book: PeerBook) -> None:
    """The status holds what the monitor measured."""
    assert Recorded(book).view.status()().loop_lag_s == 0.5


def test_a_heard_peer_shows_what_it_said_and_how_long_ago(book: PeerBook, other: Identity) -> None:
    """Its engines are those of its last state document; they have no port here."""
    told = Recorded(book)
    told.hears(document(other.device_id, slots=3))
    told.at = 1.5
    peer = told.view.status()().nodes[1]
    assert peer.age_s == 1.5
    assert [(engine.slots, engine.port) for engine in peer.engines] == [(3, None)]


def test_a_name_that_means_another_content_there_is_told(book: PeerBook, other: Identity) -> None:
    """Of the peer that differs, by the model's name; a peer that has the same is told nothing of."""
    told = Recorded(book)
    told.hears(document(other.device_id))
    assert told.view.status()().nodes[1].models_differ == ()
    told.hears(document(other.device_id, identity="sha256:2", sequence=2))
    assert told.view.status()().nodes[1].models_differ == ("m:latest",)


def test_runs_are_told_as_they_were_known_where_a_report_would_take_too_long(book: PeerBook) -> None:
    """Without a report that is not made yet, or as they were told last; all else is as it is now."""
    told = Recorded(book)
    told.arrives(ask("first", run="job"))
    assert told.view.lately().running[0].run is None
    assert told.view.unreckoned()().running[0].run == "job"
    told.at = 1.0
    late = told.view.lately()
    assert (late.running[0].run, late.running[0].age_s, late.last_run) == ("job", 1.0, None)


def test_what_runs_and_what_waits(book: PeerBook) -> None:
    """One request holds the slot, one waits; the slot counts as in flight until the reply is over."""
    told = Recorded(book)
    told.arrives(ask("first"))
    told.arrives(ask("second"))
    told.at = 0.5
    status = told.view.status()()
    (running,) = status.running
    assert (running.request, running.node, running.age_s, running.has_first_byte) == ("first", A, 0.5, False)
    assert (status.queue_length, status.nodes[0].engines[0].in_flight) == (1, 1)
    told.begins("first")
    assert told.view.status()().running[0].has_first_byte
    told.finishes("first")
    told.begins("second")
    told.finishes("second")
    status = told.view.status()()
    assert (status.running, status.queue_length, status.nodes[0].engines[0].in_flight) == ((), 0, 0)
    assert status.requests_done == 2


def test_a_slot_of_a_peer_is_in_use_as_soon_as_a_request_goes_there(book: PeerBook, other: Identity) -> None:
    """Not only once the peer has said so itself; what it does for others counts as it said."""
    told = Recorded(book)
    told.hears(document(other.device_id, slots=3))
    told.arrives(ask("here"))
    status = told.view.status()()
    (running,) = status.running
    assert running.node == other.device_id
    assert [engine.in_flight for engine in status.nodes[1].engines] == [1]
    told.hears(document(other.device_id, slots=3, frees=(9.0, 9.0), sequence=2))
    assert [engine.in_flight for engine in told.view.status()().nodes[1].engines] == [2]


def test_what_runs_is_told_with_its_times_its_tokens_and_its_run(book: PeerBook, other: Identity) -> None:
    """Of a request of this machine and of a peer's; what waits, with who must stay here."""
    told = Recorded(book)
    told.tell(EngineReported(told.at, report(2)))
    told.arrives(ask("first", run="job", prompt=300))
    told.arrives(ask("guest", origin=other.device_id, engine=GPU))
    told.arrives(ask("second", run="job"))
    told.arrives(ask("third", local_only=True, client="x"))
    told.at = 1.0
    told.begins("first")
    told.at = 4.0
    told.written["first"] = 90
    status = told.view.status()()
    first, guest = status.running
    assert (first.request, first.run, first.origin, first.attempt) == ("first", "job", None, 1)
    assert (first.age_s, first.queue_s, first.ttft_s) == (4.0, 0.0, 1.0)
    assert (first.prompt_tokens, first.output_tokens) == (300, 90)
    assert (guest.request, guest.run, guest.origin, guest.ttft_s) == ("guest", None, other.device_id, None)
    second, third = status.waiting
    assert (second.request, second.run, second.age_s, second.is_local) == ("second", "job", 4.0, False)
    assert (third.request, third.run, third.is_local) == ("third", "third", True)
    assert status.limit.startswith("All 2 slots are busy")
    told.finishes("first", tokens=90)
    told.begins("second")
    (after,) = [one for one in told.view.status()().running if one.request == "second"]
    assert (after.queue_s, after.ttft_s) == (4.0, 4.0)


def test_the_current_run_is_told_as_far_as_it_is(book: PeerBook) -> None:
    """Counts, waves, and the bound of all that arrived; nothing open: there is none."""
    told = Recorded(book)
    assert told.view.status()().current_run is None
    for name in ("one", "two", "three"):
        told.arrives(ask(name, run="job"))
    told.at = 2.0
    told.begins("one")
    told.finishes("one", tokens=10)
    current = told.view.status()().current_run
    assert current is not None
    assert (current.run, current.age_s, current.requests, current.slots) == ("job", 2.0, 3, 1)
    assert (current.ended, current.running, current.waiting) == (1, 1, 1)
    assert (current.waves, current.waves_done, current.bound_waves) == (3, 1.0, 1.0)
    assert current.speedup is None  # there is one node
    for name in ("two", "three"):
        told.begins(name)
        told.finishes(name, tokens=10)
    assert told.view.status()().current_run is None


def test_each_node_tells_what_it_writes(book: PeerBook, other: Identity) -> None:
    """This one's by its requests and its guests', a peer's by those sent there; the last minute of both."""
    told = Recorded(book)
    told.hears(document(other.device_id, rates=FAST))
    told.arrives(ask("there"))
    told.arrives(ask("guest", origin=other.device_id, engine=GPU))
    told.begins("there")
    told.begins("guest")
    told.at = 2.0
    told.written |= {"there": 100, "guest": 20}
    own, peer = told.view.status()().nodes
    assert (own.tokens_per_s, peer.tokens_per_s) == pytest.approx((10.0, 50.0))
    assert (own.recent_tokens_per_s[-2:], len(own.recent_tokens_per_s)) == ((10.0, 10.0), 60)
    assert peer.recent_tokens_per_s[-3:] == (0.0, 50.0, 50.0)


def run(told: Recorded, name: str, seconds: float = 2.0) -> None:
    """One request, dispatched at once, from its arrival to its end."""
    told.arrives(ask(name))
    told.at += 0.5
    told.begins(name)
    told.at += seconds - 0.5
    told.finishes(name, tokens=50)


def test_the_report_counts_from_the_beginning_of_its_run(book: PeerBook, other: Identity) -> None:
    """Times in it are seconds since the run began, whatever the clock said; every node has a name."""
    told = Recorded(book)
    told.at = 1000.0
    run(told, "one")
    report = told.view.report(None)()
    assert report.run is not None
    assert report.run.makespan_s == pytest.approx(2.0)
    (record,) = report.records
    assert (record.request, record.node, record.engine, record.outcome) == ("one", A, "gpu", "done")
    times = (record.arrived_s, record.dispatched_s, record.first_byte_s, record.ended_s)
    assert times == pytest.approx((0.0, 0.0, 0.5, 2.0))
    assert (record.output_tokens, record.attempts) == (50, 1)
    assert report.names == {A: "anna", other.device_id: "bert"}


@pytest.mark.parametrize(("model", "slots"), [("other:latest", 1), (M, 4)])
def test_only_nodes_that_have_the_model_count(
    book: PeerBook, other: Identity, model: str, slots: int
) -> None:
    """A peer that could not have served any of a run is no part of its report; no speedup is claimed then."""
    told = Recorded(book)
    told.hears(document(other.device_id, slots=3, frees=(60.0,) * 3, model=ModelName(model)))
    for name in ("one", "two"):
        told.arrives(ask(name))
        told.begins(name)
        told.at += 0.5
        told.finishes(name, tokens=50)
    report = told.view.report(None)().run
    assert report is not None
    assert (report.slots, len(report.per_node)) == (slots, 1 if slots == 1 else 2)
    assert (report.t1 is None) is (slots == 1)


def test_without_a_run_there_is_no_report(book: PeerBook) -> None:
    """An empty ledger, or a name that was never used."""
    told = Recorded(book)
    assert told.view.report(None)().run is None
    run(told, "one")
    assert told.view.report("never")().run is None
    assert told.view.report(None)().run is not None


def test_the_status_follows_a_run_that_grows(book: PeerBook) -> None:
    """The report that is kept for the faces is made anew when a request ends."""
    told = Recorded(book)
    run(told, "one")
    first = told.view.status()().last_run
    assert first is not None
    assert first == told.view.status()().last_run
    run(told, "two")
    second = told.view.status()().last_run
    assert second is not None
    assert (first.requests, second.requests) == (1, 2)


def test_no_word_of_a_request_is_shown(book: PeerBook) -> None:
    """The JSON holds names, numbers and reasons; a request's text never comes to this module."""
    told = Recorded(book)
    run(told, "one")
    fields = told.view.report(None)().records[0].__struct_fields__
    assert set(fields) == {
        "request", "node", "engine", "outcome", "arrived_s", "dispatched_s", "first_byte_s", "ended_s",
        "prompt_tokens", "output_tokens", "attempts", "reason", "model", "cached_tokens", "error",
        "continued",
    }  # fmt: skip


def test_an_engine_that_fell_silent_is_shown_as_down(book: PeerBook) -> None:
    """With what it had, until it answers again."""
    told = Recorded(book)
    told.tell(EngineLost(told.at, GPU))
    (engine,) = told.view.status()().nodes[0].engines
    assert (engine.engine, engine.is_up, engine.port) == (GPU, False, 4711)
    assert [one.model for one in engine.replicas] == [M]
    told.tell(EngineReported(told.at, report()))
    assert [one.is_up for one in told.view.status()().nodes[0].engines] == [True]


def test_a_draining_node_says_so(book: PeerBook) -> None:
    """For whoever looks while it stops."""
    told = Recorded(book, speed=False)
    told.tell(DrainStarted(told.at))
    status = told.view.status()()
    assert (status.is_draining, status.nodes[0].engines) == (True, ())
    assert NodeId(status.node) == A


def test_slots_that_are_kept_free_beside_foreign_work_are_told(book: PeerBook) -> None:
    """As many as this node tells its peers, and the slots are those that are left."""
    told = Recorded(book)
    told.tell(EngineReported(told.at, report(3)))
    for second in range(1, 12):
        told.scheduler.local.foreign.saw(GPU, 0.5, 1.0, float(second))
    told.at = 12.0
    (engine,) = told.view.status()().nodes[0].engines
    assert (engine.slots, engine.foreign) == (2, 1)
