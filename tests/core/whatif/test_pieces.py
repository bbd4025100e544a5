from pairproxy.core.accounting.runs import group_runs
from pairproxy.core.models import Outcome
from pairproxy.core.whatif.pieces import pieces_of
from tests.core.accounting.conversation import A, at, served


def test_a_chain_keeps_its_order_and_its_tools() -> None:
    """The second piece follows the first after two seconds, and its prompt goes on with the first reply."""
    first = served("a", 0, 0, 3, prefix=(1, 2), prompt=140, tokens=130, run="job")
    second = served("b", 5, 5, 9, prefix=(1, 2, 3, 4, 5), prompt=330, tokens=10, run="job")
    (run,) = group_runs([first, second])
    one, two = pieces_of(run)
    assert (one.after, two.after, two.think_s) == (None, 0, 2.0)
    assert (one.blocks, one.reply_blocks) == ((1, 2), (3, 4))
    assert (one.read, one.unread, one.output, one.place) == (140, 140, 130, at(A))


def test_what_was_cached_before_the_run_need_not_be_read_by_anybody() -> None:
    """What an earlier request of the run had read is not counted as that."""
    first = served("a", 0, 0, 3, prefix=(1, 2, 3), prompt=200, cached=128, run="job")
    second = served("b", 0, 0, 3, prefix=(1, 2, 3), prompt=200, cached=192, run="job")
    (run,) = group_runs([first, second])
    one, two = pieces_of(run)
    assert (one.read, one.unread) == (72, 72)
    assert (two.read, two.unread) == (8, 200)


def test_only_what_was_served_is_a_piece() -> None:
    """And if one of these said nothing of its tokens there are none at all."""
    done, left = served("a", 0, 0, 3, run="job"), served("b", 0, 0, 1, outcome=Outcome.CANCELLED, run="job")
    (run,) = group_runs([done, left])
    assert [piece.attempt.request for piece in pieces_of(run)] == ["a"]
    (silent,) = group_runs([done, served("c", 0, 0, 3, prompt=0, tokens=None, run="job")])
    assert pieces_of(silent) == []
