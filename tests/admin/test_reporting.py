from itertools import count

import pytest

from pairproxy.admin.reporting import Reports
from pairproxy.core.accounting.ledger import Ledger
from pairproxy.core.commands import Command
from pairproxy.core.dialects.reading_outline import outline_of
from pairproxy.core.events import Event
from pairproxy.core.models import NodeId
from tests.core.told import FAST, SLOW, A, Told, ask, document

PEER = NodeId("b")


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
        self.arrives(ask(name, local_only=True, **facts))  # type: ignore[arg-type]
        self.at += 0.4
        self.begins(name)
        self.at += 4.0
        self.finishes(name, tokens=100)
        self.sequence += 1
        self.hears(document(PEER, rates=FAST, sequence=self.sequence))


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
    """For twenty times as long as it took; who asks for the report hears what is true now."""
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
