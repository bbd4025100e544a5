from pairproxy.core.models import RequestId
from pairproxy.history.marks import LIMIT_MARKS, Mark, Marks


def test_the_last_mark_of_an_id_counts() -> None:
    """A peer's next attempt has the id of the one before; what never ended has none."""
    marks = Marks()
    marks.note(RequestId("r"), Mark(1, 10.0))
    marks.note(RequestId("r"), Mark(2, 11.0))
    found = marks.of(RequestId("r"))
    assert found is not None
    assert (found.number, found.ended_unix, len(marks)) == (2, 11.0, 1)
    assert marks.of(RequestId("open")) is None


def test_they_are_bounded() -> None:
    """The oldest go first."""
    marks = Marks()
    for number in range(LIMIT_MARKS + 2):
        marks.note(RequestId(f"r{number}"), Mark(number, 0.0))
    assert len(marks) == LIMIT_MARKS
    assert marks.of(RequestId("r1")) is None
    assert marks.of(RequestId("r2")) is not None
