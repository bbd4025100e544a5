from collections import Counter

import msgspec
import pytest

from pairproxy.core.accounting.verdict import Verdict, several, shown
from tests.core.accounting.judged import judged, nodes, piece


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0.00"), (9.994, "9.99"), (12.34, "12.3"), (999.94, "999.9"), (1234.5, "1234")],
)
def test_seconds_have_the_digits_that_a_person_reads(seconds: float, text: str) -> None:
    """Fewer behind the point, the more stand before it."""
    assert shown(seconds) == text


def test_counts_have_their_plural() -> None:
    """One slot, two slots, no slots."""
    assert [several(count, "slot") for count in (0, 1, 2)] == ["0 slots", "1 slot", "2 slots"]


def test_what_is_seen_has_names_and_no_endless_lists() -> None:
    """A node without a name is called by its id; of many places three are named."""
    seen = judged(nodes("ab"), [piece() for _ in range(4)]).seen
    assert {seen.lane_name(lane) for lane in range(2)} == {"laptop", "b"}
    assert seen.named(Counter({"v": 4, "w": 3, "x": 2, "y": 1, "z": 1})) == (
        "4 on v, 3 on w, 2 on x and more on 2 other nodes"
    )
    assert seen.of_makespan(2.0) == f"2.00 of {shown(seen.report.makespan_s)} s"


def test_a_verdict_goes_through_json_and_back() -> None:
    """As the faces read it."""
    verdict = judged(nodes("ab"), [piece() for _ in range(5)]).verdict
    assert msgspec.json.decode(msgspec.json.encode(verdict), type=Verdict) == verdict
