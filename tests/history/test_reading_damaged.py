"""A disk that rots: whatever bytes stand in history.db, a daemon starts, writes, and answers."""

import contextlib
import io
import random
import shutil
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from pairproxy.core.errors import StoreError
from pairproxy.history.changes import NodeChange
from pairproxy.history.exporting import FORMATS, Wanted, export
from pairproxy.history.reading import Past
from pairproxy.history.store import FILE
from tests.core.accounting.conversation import B, served
from tests.history.kept import EPOCH, Kept, job, requests
from tests.support.running import run_async

BAD = ("'{'", "x'ff'", "5", "9e999", "-1e300", "cast(x'27ff27' as text)")
"""Values as SQL that are in no row of ours."""
COLUMNS = [
    *(("runs", one) for one in (
        "run", "name", "started_s", "started_unix", "ended_unix", "summary", "report", "recording", "names",
        "requests_gone",
    )),
    *(("requests", one) for one in (
        "life", "request", "model", "dialect", "path", "client", "run", "chain", "origin", "arrived_s",
        "ended_s", "ended_unix", "outcome", "estimated_tokens", "max_output_tokens", "is_streaming", "error",
        "usage", "attempts", "in_run",
    )),
    *(("decisions", one) for one in ("decision",)),
    *(("changes", one) for one in ("at_unix", "node", "what", "detail")),
    *(("lives", one) for one in ("node", "version", "started_unix")),
]  # fmt: skip


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of some pages, with all there can be in it."""
    home = tmp_path_factory.mktemp("sound")
    kept = Kept(home)

    async def main() -> None:
        for number in range(8):
            kept.end(*job(6, number * 100.0, f"job{number}-"))
            kept.at += 20.0
            await kept.history.flush()
        kept.end(served("guest", kept.at, kept.at, kept.at + 1.0, origin=B))
        kept.history._pending.change([NodeChange(EPOCH, B, "up", "x" * 900)])
        await kept.history.close()

    run_async(main())
    return home / FILE


def tell_all(path: Path) -> None:
    """Everything that is asked of a file; a sentence of ours is an answer."""
    past = Past(path)
    names = [f"job{number}-" for number in range(8)]
    questions: list[Callable[[], object]] = [
        lambda: past.runs(0.0, 99),
        past.names,
        past.node,
        lambda: past.count(0.0),
        lambda: past.changes(0.0),
        lambda: list(past.requests(0.0)),
        *(partial(past.report, name, with_recording=True) for name in names),
        *(partial(export, past, Wanted(), kind, io.StringIO()) for kind in FORMATS),
        partial(export, past, Wanted(run=names[0]), "csv", io.StringIO()),
    ]
    for ask in questions:
        with contextlib.suppress(StoreError):  # a sentence for a person
            ask()


def live_on(home: Path) -> None:
    """Another life of the daemon on that file: what ends now is kept."""
    kept = Kept(home)

    async def main() -> None:
        await kept.history._in(kept.history._disk, kept.history._start)
        kept.end(*job(2, 1e6, "new"))
        for _ in range(3):  # the first may find that the file is broken
            await kept.history.flush()
            kept.at += 100.0
        await kept.history.runs(0.0, 99)
        await kept.history.close()

    run_async(main())
    if kept.history.problem is None:
        assert {"new0", "new1"} <= set(requests(home / FILE))


@pytest.mark.slow
@pytest.mark.parametrize(("table", "column"), COLUMNS)
def test_a_value_that_we_did_not_write(table: str, column: str, sound: Path, tmp_path: Path) -> None:
    """One row cannot be read: the others are, and the daemon goes on."""
    for number, value in enumerate(BAD):
        home = tmp_path / str(number)
        home.mkdir(mode=0o700)
        path = home / FILE
        shutil.copy2(sound, path)
        with sqlite3.connect(path) as connection:
            key = "life" if table == "lives" else "number"
            first = f"{key} = (SELECT MIN({key}) FROM {table})"  # noqa: S608 ours
            connection.execute(f"UPDATE {table} SET {column} = {value} WHERE {first}")  # noqa: S608
            connection.execute("UPDATE runs SET report = NULL WHERE number % 2 = 0")
            connection.execute("UPDATE requests SET in_run = NULL WHERE number % 5 = 0 AND origin IS NULL")
        connection.close()
        tell_all(path)
        live_on(home)
        tell_all(path)
        left = requests(path)
        assert len(left) >= 40, value  # of 49 and 2: at most a run is lost with its row


@pytest.mark.parametrize("seed", [*range(20), 204])  # the last: a schema that is no text
def test_bytes_that_changed(seed: int, sound: Path, tmp_path: Path) -> None:
    """Anywhere behind the header: some are found by SQLite, which moves the file aside, some are not."""
    rng = random.Random(seed)
    data = bytearray(sound.read_bytes())
    for _ in range(rng.choice((1, 4, 64))):
        at = rng.randrange(100, len(data))
        length = rng.choice((1, 1, 16, 4096))
        data[at : at + length] = rng.choice((bytes(length), rng.randbytes(length)))[: len(data) - at]
    path = tmp_path / FILE
    path.write_bytes(data)
    path.chmod(0o600)
    tell_all(path)
    live_on(tmp_path)
    tell_all(path)
    assert {"new0", "new1"} <= set(requests(path))
