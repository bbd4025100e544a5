from pathlib import Path

from pairproxy.history.marks import Ended
from pairproxy.history.reading import Past
from pairproxy.history.rebuilding import NO_SPEEDS, rebuild, reckon
from pairproxy.history.store import FILE, Batch, Store
from tests.core.accounting.conversation import A, B, served
from tests.history.kept import EPOCH, grouped, written


def again(path: Path) -> dict[str, int]:
    """What the next start does; the runs there are then, with their requests."""
    store = Store(path, A, EPOCH)
    connection = store.open()
    rebuild(connection)
    reckon(connection)
    store.close()
    return {one.summary.run: one.summary.requests for one in Past(path).runs(0.0, 99)}


def test_what_is_in_no_run_is_grouped(tmp_path: Path) -> None:
    """By life, for each has its own clock; guests stay alone."""
    guest = served("guest", 0.0, 0.0, 1.0, origin=B)
    lives = [[served("a", 1.0, 1.0, 2.0, run="job"), served("b", 1.0, 2.0, 3.0, run="job"), guest]]
    lives.append([served("c", 1.0, 1.0, 2.0, client="me"), served("d", 90.0, 90.0, 91.0, client="me")])
    path = written(tmp_path, *lives)
    assert again(path) == {"job": 2, "c": 1, "d": 1}
    assert again(path) == {"job": 2, "c": 1, "d": 1}
    report = Past(path).report("job")
    assert report is not None
    assert report.run is not None
    assert NO_SPEEDS in report.run.notes
    assert report.run.speedup is None


def test_the_rest_of_a_run_goes_to_the_run(tmp_path: Path) -> None:
    """It was written before the end came, the last second's requests after it were not grouped."""
    store = Store(tmp_path / FILE, A, EPOCH)
    batch = grouped([served(f"r{one}", one, one, one + 2.0) for one in range(3)])
    store.write(batch)
    store.write(Batch([Ended(4, EPOCH + 5.0, served("late", 3.0, 3.0, 5.0))]))
    store.close()
    assert again(tmp_path / FILE) == {"r0": 4}
    (run,) = Past(tmp_path / FILE).runs(0.0, 9)
    assert (run.number, run.summary.makespan_s, run.summary.outcomes) == (1, 5.0, {"done": 4})


def test_two_runs_that_were_one_become_one(tmp_path: Path) -> None:
    """What joins them ended in the last second."""
    store = Store(tmp_path / FILE, A, EPOCH)
    store.write(grouped([served("a", 0.0, 0.0, 1.0), served("b", 20.0, 20.0, 21.0)]))
    store.write(Batch([Ended(3, EPOCH + 30.0, served("long", 0.5, 0.5, 30.0))]))
    store.close()
    assert again(tmp_path / FILE) == {"a": 3}


def test_a_row_that_no_version_knows_is_left_alone(tmp_path: Path) -> None:
    """An outcome of another version, say."""
    path = written(tmp_path, [served("a", 0.0, 0.0, 1.0), served("b", 0.0, 0.0, 1.0)])
    store = Store(path, A, EPOCH)
    store.open().execute("UPDATE requests SET outcome = 'dissolved' WHERE request = 'b'")
    store.close()
    assert again(path) == {"a": 1}
