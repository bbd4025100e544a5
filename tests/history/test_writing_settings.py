import asyncio
from pathlib import Path

import pytest

from pairproxy.config import HistorySettings
from pairproxy.core.models import RequestId
from pairproxy.history.trimming import files_of
from tests.core.accounting.conversation import served
from tests.history.kept import Kept, job, requests
from tests.support.fake_engine import eventually
from tests.support.running import run_async


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for the second that a batch takes."""
    monkeypatch.setattr("pairproxy.history.writing.FLUSH_S", 0.01)


def test_no_days_are_no_file(tmp_path: Path) -> None:
    """And what was there is removed."""
    kept = Kept(tmp_path)

    async def main() -> None:
        kept.end(*job(1))
        await kept.history.flush()
        await kept.history.close()
        kept.settings = HistorySettings(keep_days=0)
        kept.history = kept.begin()
        task = asyncio.create_task(kept.history.run())
        kept.end(*job(1))
        await eventually(lambda: not kept.history.path.exists())
        await kept.history.flush()
        task.cancel()
        await kept.history.close()
        assert not any(file.exists() for file in files_of(kept.history.path))
        assert [one.run for one in (await kept.history.runs(0.0, 9)).runs] == ["job"]

    run_async(main())


def test_it_is_turned_off_and_on_while_it_runs(kept: Kept) -> None:
    """By the settings that are read anew: off, what was there is removed at once; on, what ends is kept."""

    async def main() -> None:
        task = asyncio.create_task(kept.history.run())
        kept.end(*job(1))
        await kept.history.flush()
        assert requests(kept.history.path) == ["job0"]
        kept.history.follow_settings(HistorySettings(keep_days=0))
        await eventually(lambda: not any(file.exists() for file in files_of(kept.history.path)))
        kept.end(*job(1, 10.0, "unseen"))
        await kept.history.flush()
        assert not kept.history.path.exists()
        kept.history.follow_settings(HistorySettings())
        kept.end(*job(1, 20.0, "later"))
        await kept.history.flush()
        assert requests(kept.history.path) == ["later0"]
        task.cancel()
        await kept.history.close()

    run_async(main())


def test_what_is_kept_while_nothing_is_written_knows_its_runs(tmp_path: Path) -> None:
    """Also without a file a run is known by one id, though memory lets go of how it began."""
    kept = Kept(tmp_path, HistorySettings(keep_days=0))

    async def main() -> None:
        for one in range(6):
            kept.end(served(f"r{one}", one, one, one + 1.0))
        await kept.history.flush()
        assert kept.history.id_of(RequestId("r0")) is None
        del kept.records[:3]
        assert kept.history.id_of(RequestId("r3")) == "r0"

    run_async(main())


def test_it_is_trimmed_while_it_runs(kept: Kept) -> None:
    """By the settings in force, which may change."""

    async def main() -> None:
        kept.end(*job(1))
        await kept.history.flush()
        kept.history.follow_settings(HistorySettings(keep_days=1))
        kept.at += 2 * 86_400.0
        kept.end(*job(1, kept.at, "new"))
        await kept.history.flush()
        assert requests(kept.history.path) == ["new0"]

    run_async(main())
