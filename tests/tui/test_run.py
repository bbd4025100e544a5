from dataclasses import replace

import msgspec

from pairproxy.api.schema import Status
from pairproxy.core.accounting.report import RunReport
from pairproxy.tui.palette import ASCII
from pairproxy.tui.run import run_lines
from tests.support.statuses import at_work, node, status

LAST = RunReport("nightly", 5, {"done": 5}, {}, 3.5, None, None, None, None, 2, 1.67, 2.8, 1.92, None, 1.5)


def lines(found: Status) -> list[str]:
    """As text."""
    return [line.plain for line in run_lines(found, 80, ASCII)]


def test_a_run_that_is_on_shows_its_waves_and_how_near_it_is_to_its_bound() -> None:
    """In three lines."""
    assert lines(at_work()) == [
        "run nightly  18 requests: 5 ended, 4 running, 9 waiting; 12.0 s so far",
        "  waves   |########=|====.....|.........|  0.8 of 3 waves on 6 slots",
        "  speedup ########################.......  1.43 so far; provable bound 1.85",
    ]


def test_before_a_speedup_is_known_the_bound_of_equal_nodes_stands_there() -> None:
    """Under its own name."""
    run = at_work().current_run
    assert run is not None
    early = msgspec.structs.replace(run, speedup=None, bound_provable=None)
    assert lines(msgspec.structs.replace(at_work(), current_run=early))[-1].endswith(
        "  not known yet; waves bound 6.00"
    )


def test_of_the_last_run_there_is_what_came_of_it() -> None:
    """With the command that tells more; without a speedup only that."""
    assert lines(status(node(), last_run=LAST)) == [
        "last run nightly  5 requests in 3.5 s on 2 slots; see `pairproxy report`",
        "  speedup ########################.......  1.50; provable bound 1.92",
    ]
    assert len(lines(status(node(), last_run=replace(LAST, speedup=None)))) == 1
    assert lines(status(node())) == []
