import msgspec

from pairproxy.tui.palette import ASCII
from pairproxy.tui.requests import RUNNING, WAITING_COLUMNS, running_rows, waiting_rows
from tests.support.statuses import B, node, running, status, waiting


def test_what_runs_is_listed_by_the_beginning_of_its_id() -> None:
    """With node, age, the time to the first byte, tokens so far, model; who is late stands first."""
    found = status(
        node(), node(B, "box"), running=(running(1), running(2, B, writes=False, age_s=9.0, run="nightly"))
    )
    first, second = ([cell.plain for cell in row] for row in running_rows(found, ASCII, 9))
    assert first == ["00000002", "box", "9.00 s", "reading", "-", "m:1b", "nightly"]
    assert second == ["00000001", "desk", "1.50 s", "0.40 s", "20", "m:1b", ""]
    assert len(first) == len(RUNNING)


def test_what_is_special_about_a_request_stands_at_the_end() -> None:
    """Whose it is and which attempt; a node that is not known any more by the beginning of its id."""
    guest = msgspec.structs.replace(running(1, "D" * 52), origin=B, attempt=2)
    (row,) = running_rows(status(node(), node(B, "box"), running=(guest,)), ASCII, 9)
    assert (row[1].plain, row[-1].plain) == ("DDDDDDDD", "from box, attempt 2")


def test_only_as_many_rows_as_have_room_are_made() -> None:
    """Of those that run the oldest, of those that wait the first to go."""
    found = status(
        node(),
        running=tuple(running(number, age_s=number) for number in range(9)),
        waiting=tuple(waiting(number) for number in range(9)),
    )
    assert [row[0].plain for row in running_rows(found, ASCII, 2)] == ["00000008", "00000007"]
    assert [row[0].plain for row in waiting_rows(found, ASCII, 2)] == ["00000000", "00000001"]
    assert len(waiting_rows(found, ASCII, 2)[0]) == len(WAITING_COLUMNS)
    assert running_rows(found, ASCII, -1) == []
