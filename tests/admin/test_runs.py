import msgspec
import pytest

from pairproxy.admin.runs import LIMIT, MOST, runs_page
from pairproxy.api.runs import Runs, RunSummary
from pairproxy.core.errors import BadRequest
from tests.api.test_schema import REPORT
from tests.support.asked import Question
from tests.support.running import run_async


def asked(path: str) -> tuple[float, int]:
    """What is looked for, of this path."""
    seen: list[tuple[float, int]] = []

    async def look(since_unix: float, limit: int) -> Runs:
        seen.append((since_unix, limit))
        return Runs("N", ())

    async def main() -> None:
        reply = await runs_page(look)(Question(path))
        assert msgspec.json.decode(reply.body, type=Runs) == Runs("N", ())  # type: ignore[attr-defined]

    run_async(main())
    return seen[0]


def test_without_more_it_is_the_last_ones() -> None:
    """Some screens of them."""
    assert asked("/runs") == (0.0, LIMIT)


def test_since_when_and_how_many_can_be_said() -> None:
    """Within what an answer can hold."""
    assert asked("/runs?since=1800000000.5&limit=7") == (1800000000.5, 7)
    assert asked("/runs?limit=1000000000") == (0.0, MOST)
    assert asked("/runs?limit=-3") == (0.0, 1)


@pytest.mark.parametrize(
    ("run", "requests", "makespan_s", "is_same"),
    [
        (REPORT.run, REPORT.requests, REPORT.makespan_s, True),
        ("other", REPORT.requests, REPORT.makespan_s, False),
        (REPORT.run, REPORT.requests + 1, REPORT.makespan_s, False),
        (REPORT.run, REPORT.requests, REPORT.makespan_s + 1.0, False),
    ],
)
def test_a_run_has_the_numbers_of_the_report_that_others_show(
    run: str, requests: int, makespan_s: float, is_same: bool
) -> None:
    """If that is of just this run: a job of the same name may have come before, with as many requests."""
    summary = RunSummary(run, None, 1.0, makespan_s, requests, {}, 1, 1, 1.0, None, None, None, 5)

    async def look(since_unix: float, limit: int) -> Runs:
        return Runs("N", (summary,))

    async def main() -> None:
        reply = await runs_page(look, lambda: (REPORT,))(Question("/runs"))
        (told,) = msgspec.json.decode(reply.body, type=Runs).runs  # type: ignore[attr-defined]
        assert told.efficiency == (REPORT.efficiency if is_same else None)
        assert (told.run, told.requests, told.output_tokens) == (run, requests, 5)

    run_async(main())


@pytest.mark.parametrize("query", ["since=yesterday", "limit=", "since=nan", "limit=inf"])
def test_what_is_no_number_is_refused(query: str) -> None:
    """With a sentence that says what belongs there."""
    with pytest.raises(BadRequest, match="must be a number"):
        asked(f"/runs?{query}")
