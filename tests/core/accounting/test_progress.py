from pairproxy.core.accounting.progress import progress_of
from pairproxy.core.accounting.runs import group_all
from pairproxy.core.models import RequestId
from tests.core.accounting.conversation import A, Told, asked, dispatch


def told() -> Told:
    """Of seven requests of a run two ended, two run, three wait."""
    story = Told()
    for number in range(7):
        commands = [dispatch(f"r{number}", A)] if number < 4 else []
        story.arrived(number / 10, asked(f"r{number}", run="job"), *commands)
    for name in ("r0", "r1"):
        story.finished(5.0, name)
    return story


def test_a_run_is_counted_with_what_is_open_of_it() -> None:
    """Its waves are those of all that arrived; what is done of them goes by what ended."""
    story = told()
    (group,) = group_all(story.ledger.records, story.ledger.opened())
    running = {one.id for one in story.ledger.opened() if one.running}
    progress = progress_of(group, running, 3, 6.0)
    assert (progress.run, progress.age_s) == ("job", 6.0)
    assert (progress.requests, progress.ended, progress.running, progress.waiting) == (7, 2, 2, 3)
    assert (progress.slots, progress.waves, progress.waves_done) == (3, 3, 2 / 3)
    assert progress.bound_waves == 7 / 3


def test_what_runs_at_once_is_slots() -> None:
    """Also where none is known any more; without any there is one."""
    story = told()
    (group,) = group_all(story.ledger.records, story.ledger.opened())
    assert progress_of(group, {RequestId("r2"), RequestId("r3")}, 0, 6.0).slots == 2
    assert progress_of(group, set(), 0, 6.0).slots == 1
