"""Real daemons that are watched while they work, are stopped, and come back."""

import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from pairproxy.api.client import get_explanation, get_status
from pairproxy.api.schema import Status
from pairproxy.api.watching import Lost, Watch, watch_status
from tests.support.asking import Asker
from tests.support.daemons import Daemons, settings

SOON_S = 20.0
DECODE = 50.0  # tokens/s of each node


def seen(watch: Watch, is_so: Callable[[Status], bool], what: str) -> Status:
    """The first status that is so; fails the test at the deadline."""
    end = time.monotonic() + SOON_S
    for one in watch:
        assert time.monotonic() < end, f"not seen: {what}"
        if isinstance(one, Status) and is_so(one):
            return one
    raise AssertionError(f"the watch ended before: {what}")


@pytest.mark.slow
def test_what_runs_is_seen_while_it_runs_and_a_daemon_that_comes_back_is_found(tmp_path: Path) -> None:
    """Tokens as they come, on both nodes and at both; the run; a request that is open, and its end.

    A daemon that stops does not wait for who watches, who would never leave.
    """
    with Daemons(tmp_path) as daemons:
        for name in "AB":
            daemons.home(name, settings(paced={"decode": DECODE}))
        daemons.pair("A", "B")
        first, second = daemons.start("A", "B")
        daemons.until_connected()
        with watch_status(first.home) as watch, watch_status(second.home) as other:
            assert seen(watch, lambda _: True, "the first one").current_run is None
            asker = Asker(first.port, headers={"X-Pairproxy-Run": "job"})
            replies = [asker.start(f"task {number}", tokens=150) for number in range(3)]
            status = seen(
                watch, lambda one: all(node.tokens_per_s > DECODE / 2 for node in one.nodes), "both write"
            )
            assert status.current_run is not None
            assert (status.current_run.run, status.current_run.requests) == ("job", 3)
            assert (status.current_run.running, status.current_run.waiting) == (2, 1)
            assert {one.run for one in status.running} == {one.run for one in status.waiting} == {"job"}
            assert all(0 < one.output_tokens < 160 and one.ttft_s is not None for one in status.running)
            guest = seen(other, lambda one: bool(one.running) and one.nodes[0].tokens_per_s > 0, "its guest")
            assert (guest.running[0].origin, guest.current_run) == (first.id, None)
            open_one = get_explanation(first.home, status.running[0].request)
            assert (open_one.outcome, open_one.attempts[-1].end) == ("running", "running")
            waiting = get_explanation(first.home, status.waiting[0].request)
            assert waiting.outcome in ("waiting", "running")
            assert all(reply.result().is_whole for reply in replies)
            done = seen(watch, lambda one: one.current_run is None and one.last_run is not None, "the end")
            assert done.last_run is not None
            assert (done.last_run.run, done.last_run.outcomes) == ("job", {"done": 3})
            told = sum(sum(node.recent_tokens_per_s) for node in get_status(first.home).nodes)
            assert told == pytest.approx(450, abs=60)  # the second that goes on is not told yet
            assert first.stop() == 0
            assert any(isinstance(one, Lost) for one in islice(watch, 10))
            daemons.start("A")
            assert seen(watch, lambda _: True, "the daemon again").outcomes == {}
