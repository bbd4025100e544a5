from itertools import count

import pytest

from pairproxy.admin.reporting import MOST_KEPT, PAUSE_TIMES, Reports
from pairproxy.core.accounting.ledger import Ledger
from pairproxy.core.commands import Command
from pairproxy.core.dialects.reading_outline import outline_of
from pairproxy.core.events import Event
from pairproxy.core.models import NodeId
from tests.core.told import FAST, SLOW, A, Told, ask, document

PEER = NodeId("b")
BUSY = (60.0,)  # seconds until its slot is free: what arrives here stays here


class Recorded(Told):
    """A scheduler with a faster peer, whose ledger hears what it is told."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        super().__init__(speed=SLOW)
        self.reports = Reports(self.scheduler, self.ledger, lambda: self.at)
        self.sequence = 1
        self.hears(document(PEER, rates=FAST))

    def tell(self, event: Event) -> list[Command]:
        commands = super().tell(event)
        self.ledger.record(event, commands)
        return commands

    def serves(self, name: str, **facts: object) -> None:
        """One request at its node's own speed, from its arrival to its end."""
        self.peer_is(BUSY)
        self.arrives(ask(name, **facts))  # type: ignore[arg-type]
        self.at += 0.4
        self.begins(name)
        self.at += 4.0
        self.finishes(name, tokens=100)
        self.peer_is()

    def peer_is(self, frees: tuple[float, ...] = ()) -> None:
        """What the peer tells of itself; seconds until its slot is free."""
        self.sequence += 1
        self.hears(document(PEER, rates=FAST, frees=frees, sequence=self.sequence))


def test_what_is_read_now_is_reckoned_later() -> None:
    """What a report was asked of does not change while it is reckoned."""
    told = Recorded()
    told.serves("one", run="job")
    make = told.reports.report("job", {A: "anna"})
    told.serves("two", run="job")
    assert [one.request for one in make().records] == ["one"]
    assert [one.request for one in told.reports.report("job", {})().records] == ["one", "two"]


def test_a_run_is_found_by_its_name_or_its_id() -> None:
    """An unnamed one has the id of its first request."""
    told = Recorded()
    told.serves("one", run="job")
    told.serves("two")
    for name, requests in ((None, 1), ("job", 1), ("two", 1), ("never", 0)):
        assert len(told.reports.report(name, {})().records) == requests


def test_this_node_alone_is_told_beside_the_best_one() -> None:
    """The peer is four times as fast: alone it would have been best."""
    told = Recorded()
    for name in ("one", "two", "three"):
        told.serves(name, run="job")
    run = told.reports.report("job", {})().run
    assert run is not None
    assert run.t1 is not None
    assert run.t1_local is not None
    assert (run.t1.node, run.t1_local.node) == (PEER, A)
    assert run.t1.value_s < run.t1_local.value_s


def test_a_recording_is_made_when_it_is_asked_for() -> None:
    """With what the node knows of both places, and no hash of any prompt."""
    told = Recorded()
    told.serves("one", run="job", prefix=(11111111111, 22222222222))
    assert told.reports.report("job", {})().recording is None
    recording = told.reports.report("job", {A: "anna"}, with_recording=True)().recording
    assert recording is not None
    assert (recording.node, recording.policy) == (A, "fastest-finish")
    assert {place.node for place in recording.places} == {A, PEER}
    assert recording.places[0].cache_tokens > 0
    assert recording.requests[0].blocks == 2
    assert "11111111111" not in repr(recording)


def test_the_report_is_kept_until_the_run_grows() -> None:
    """Faces that ask every second get the same one."""
    told = Recorded()
    told.serves("one", run="job")
    first = told.reports.last_run()()
    assert first is told.reports.last_run()()
    told.serves("two", run="job")
    second = told.reports.last_run()()
    assert second is not None
    assert second.requests == 2


@pytest.mark.parametrize("asked", [None, "job"])
def test_without_a_run_there_is_none(asked: str | None) -> None:
    """Nothing is made up."""
    assert Recorded().reports.report(asked, {})().run is None
    assert Recorded().reports.last_run()() is None


def test_who_only_looks_gets_a_report_again_that_took_long_to_make() -> None:
    """For a hundred times as long as it took; who asks for the report hears what is true now."""
    told = Recorded()
    told.serves("one", run="job")
    looks = count()
    slow = Reports(told.scheduler, told.ledger, lambda: told.at + 0.1 * next(looks))
    first = slow.last_run()()
    told.arrives(ask("two", local_only=True, run="job"))
    told.begins("two")
    told.finishes("two", tokens=100)
    assert slow.last_run()() is first
    now = slow.report("job", {})().run
    assert now is not None
    assert now.requests == 2


def test_what_clients_could_do_better_is_told_as_the_scheduler_says_it() -> None:
    """Prompts that part at their first line, each time with thousands of tokens behind it."""
    told = Recorded()
    rules = "".join(f"Rule {number}: be brief and say what you did.\n" for number in range(150))
    for number in range(4):
        prompt = f"It is {number} o'clock.\n{rules}".encode()
        told.serves(f"r{number}", run="job", outline=outline_of([("system prompt", prompt)]))
    (finding,) = told.reports.report("job", {})().findings
    assert "at character 0 of the system prompt" in finding
    assert "clock" not in finding


def test_who_watches_gets_a_report_anew_when_it_has_paid_for_itself() -> None:
    """Until then it is said when; each that is made is counted, with its run."""
    told = Recorded()
    looks = count()
    slow = Reports(told.scheduler, told.ledger, lambda: told.at + 0.01 * next(looks))
    assert (slow.made(), slow.next_s()) == (None, None)
    told.serves("one", run="job")
    assert slow.watched()().last_run is not None
    assert (slow.made(), slow.next_s()) == ((1, "job"), None)
    told.at -= 4.4  # the next one ends in the same moment
    told.serves("two", run="job")
    last = slow.watched()().last_run
    assert last is not None
    assert last.requests == 1
    wait_s = slow.next_s()
    assert wait_s is not None
    assert 0.1 < wait_s < 1.0 + PAUSE_TIMES * 0.01
    told.at += wait_s
    last = slow.watched()().last_run
    assert last is not None
    assert last.requests == 2
    assert (slow.made(), slow.next_s()) == ((2, "job"), None)


def test_a_report_of_before_is_whole() -> None:
    """Its requests and its timeline are those that it was made of."""
    told = Recorded()
    told.serves("one", run="job")
    told.reports.watched()()
    told.serves("two", run="job")
    kept = told.reports.report(None, {}, is_watched=True)()
    assert kept.run is not None
    assert kept.timeline is not None
    assert (kept.run.requests, len(kept.records), len(kept.timeline.bars)) == (1, 1, 1)
    assert len(told.reports.report(None, {})().records) == 2
    assert len(told.reports.report(None, {}, is_watched=True)().records) == 2
    assert Recorded().reports.report(None, {}, is_watched=True)().run is None


def test_the_run_that_goes_on_is_told_beside_the_one_that_ended_last() -> None:
    """Of several the one that began last, with the report of what of it ended; nothing open: none."""
    told = Recorded()
    watched = told.reports.watched()()
    assert (watched.current, watched.current_report, watched.run_of) == (None, None, {})
    told.arrives(ask("long", local_only=True, client="x"))
    told.begins("long")
    told.at += 1.0
    for name in ("a", "b"):
        told.arrives(ask(name, run="job"))
    watched = told.reports.watched()()
    assert watched.run_of == {"long": "long", "a": "job", "b": "job"}
    assert watched.current is not None
    assert (watched.current.run, watched.current.requests, watched.current.ended) == ("job", 2, 0)
    assert (watched.current.running, watched.current.waiting, watched.current.slots) == (1, 1, 2)
    assert (watched.last_run, watched.current_report) == (None, None)
    told.begins("a")
    told.finishes("a", tokens=10)
    watched = told.reports.watched()()
    assert watched.current is not None
    assert (watched.current.run, watched.current.ended) == ("job", 1)
    assert watched.current_report is watched.last_run
    assert watched.last_run is not None
    assert watched.last_run.run == "job"
    told.begins("b")
    told.finishes("b", tokens=10)
    watched = told.reports.watched()()
    assert watched.current is not None
    assert (watched.current.run, watched.current_report) == ("long", None)
    told.at += 1.0
    told.finishes("long", tokens=10)
    watched = told.reports.watched()()
    assert (watched.current, watched.run_of) == (None, {})
    assert watched.last_run is not None
    assert watched.last_run.run == "long"


def test_a_report_keeps_the_id_of_a_run_whose_first_request_is_open() -> None:
    """The report of the others has the id that the run will end with, and is found by it."""
    told = Recorded()
    told.arrives(ask("first"))
    told.begins("first")
    told.arrives(ask("second", local_only=True))
    told.begins("second")
    told.at += 1.0
    told.finishes("second", tokens=10)
    before = told.reports.report(None, {})()
    assert before.run is not None
    assert (before.run.run, before.run.requests) == ("first", 1)
    told.finishes("first", tokens=10)
    after = told.reports.report("first", {})()
    assert after.run is not None
    assert after.run.requests == 2


def test_only_a_few_reports_are_kept() -> None:
    """Those that were made last."""
    told = Recorded()
    names = [f"job{one}" for one in range(MOST_KEPT + 2)]
    for name in names:
        told.serves(name, run=name)
        told.reports.report(name, {})()
    assert [*told.reports._kept] == names[2:]


def test_a_node_that_may_take_none_of_a_run_is_no_part_of_its_report() -> None:
    """What a rule keeps here is not said to have waited by plan; alone, this node is the best there is."""
    told = Recorded()
    for name in ("one", "two", "three"):
        told.serves(name, run="job", local_only=True)
    found = told.reports.report("job", {A: "anna"}, with_recording=True)()
    assert found.run is not None
    assert (found.run.barred, [*found.run.per_node]) == (1, [A])
    assert found.run.bound_capacity in (None, 1.0)
    assert found.recording is not None
    assert {place.node for place in found.recording.places} == {A}
    told.serves("four", run="job")
    mixed = told.reports.report("job", {})().run
    assert mixed is not None
    assert (mixed.barred, {*mixed.per_node}) == (0, {A, PEER})
