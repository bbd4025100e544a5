from pathlib import Path

import pytest

from pairproxy.admin.advising import NO_HITS, Advising
from pairproxy.config import Limits
from pairproxy.core.accounting.ledger import Ledger
from pairproxy.core.commands import Command
from pairproxy.core.errors import NotRemembered
from pairproxy.core.events import AttemptFinished, Event
from pairproxy.core.models import AttemptId, ModelName, Outcome, RequestId, Usage
from pairproxy.peers.book import PeerBook
from pairproxy.security import tls
from pairproxy.security.identity import load_or_create
from tests.core.told import GPU, SLOW, A, Told, ask


class Recorded(Told):
    """A scheduler alone, whose ledger hears what it is told, and the advice on both."""

    def __init__(self, home: Path) -> None:
        self.ledger = Ledger()
        super().__init__(speed=SLOW)
        own = load_or_create(home)
        book = PeerBook(lambda _: None, lambda: 0.0, lambda der: tls.client_context(own, der), Limits())
        self.advising = Advising(self.scheduler, self.ledger, book, lambda: self.at, lambda: 0.001)
        self.advising.name = "anna"

    def tell(self, event: Event) -> list[Command]:
        commands = super().tell(event)
        self.ledger.record(event, commands)
        return commands

    def serves(self, count: int, run: str, outcome: Outcome = Outcome.DONE) -> None:
        """So many requests at once, on one slot: 0.4 s to read and 4 s to write each, one by one."""
        names = [f"{run}-{index}" for index in range(count)]
        for name in names:
            self.arrives(ask(name, run=run))
        for name in names:
            self.at += 0.4
            self.begins(name)
            self.at += 4.0
            usage = Usage(prompt_tokens=100, output_tokens=100)
            self.tell(AttemptFinished(self.at, AttemptId(RequestId(name), 1), outcome, usage))
        self.at += 60.0


def test_a_burst_on_one_slot_is_advised_on(tmp_path: Path) -> None:
    """What was measured, what is simulated, and what is not known here."""
    told = Recorded(tmp_path)
    told.serves(6, "job")
    found = told.advising.advice(None)()
    assert (found.node, found.run, found.requests) == (A, "job", 6)
    assert found.advice[0].helps
    assert found.advice[0].lever in ("more-slots", "more-nodes")
    assert "like anna" in next(one for one in found.advice if one.lever == "more-nodes").sentence
    assert found.model_error is not None
    assert found.model_error < 0.1
    assert NO_HITS in found.missing


def test_without_a_request_there_is_no_advice(tmp_path: Path) -> None:
    """Nobody is told to buy a machine."""
    found = Recorded(tmp_path).advising.advice(None)()
    assert (found.run, found.requests, found.advice) == (None, 0, ())


def test_a_run_is_found_by_its_name_and_a_wrong_one_is_said(tmp_path: Path) -> None:
    """As in the report."""
    told = Recorded(tmp_path)
    told.serves(3, "first")
    told.serves(4, "second")
    assert told.advising.advice("first")().requests == 3
    with pytest.raises(NotRemembered, match="no run of this name"):
        told.advising.advice("third")()


def test_a_run_that_says_something_comes_before_a_later_one_that_does_not(tmp_path: Path) -> None:
    """One question after a burst is no workload; where there is nothing else, it is looked at."""
    told = Recorded(tmp_path)
    told.serves(1, "question")
    assert told.advising.advice(None)().run == "question"
    told.serves(4, "burst")
    told.serves(1, "later")
    assert told.advising.advice(None)().run == "burst"


def test_what_is_known_is_not_reckoned_again_until_the_run_grows(tmp_path: Path) -> None:
    """A page asks every few seconds."""
    told = Recorded(tmp_path)
    told.serves(3, "job")
    first = told.advising.advice(None)()
    assert told.advising.advice(None)() is first
    told.at -= 59.0
    told.serves(4, "job")
    assert told.advising.advice(None)().requests == 7


def test_a_run_of_which_nothing_ended_well_is_still_answered(tmp_path: Path) -> None:
    """With what is missing, not with a fault."""
    told = Recorded(tmp_path)
    told.serves(3, "job", Outcome.ERROR)
    found = told.advising.advice(None)()
    assert (found.run, found.requests) == ("job", 0)
    assert found.model_error is None
    assert any("cannot be replayed" in sentence for sentence in found.missing)


def test_a_model_that_nobody_lists_is_no_reason_to_fetch_it(tmp_path: Path) -> None:
    """An engine may take any name; there is nothing to compare."""
    told = Recorded(tmp_path)
    for index in range(3):
        told.arrives(ask(f"r{index}", run="job", model=ModelName("nobody"), engine=GPU))
        told.at += 1.0
        told.begins(f"r{index}")
        told.finishes(f"r{index}")
    found = told.advising.advice("job")()
    assert not any(one.lever == "idle-nodes" for one in found.advice)
    assert any("no node lists its model" in sentence for sentence in found.missing)
