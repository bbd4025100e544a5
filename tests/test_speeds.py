import asyncio
import errno
import json
import logging
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from pairproxy import speeds as speeds_module
from pairproxy.config import EngineSettings
from pairproxy.core.costs import PRIORS, Costs
from pairproxy.core.documents import EngineReport
from pairproxy.core.models import Replica, Usage
from pairproxy.core.speeds import keys_of
from pairproxy.core.timing import Timing
from pairproxy.speeds import FILE, MOST_DAYS, MOST_SPEEDS, SpeedStore
from tests.core.told import GPU, M, ask
from tests.support.fake_engine import eventually
from tests.support.running import run_async

MEASURED = Usage(1000, 0, 100, 0.5, 2.0)


class Life:
    """A life of a daemon on some machine, on some day."""

    def __init__(
        self, home: Path, *, device: str = "machine", day: int = 20_000, kind: str = "ollama"
    ) -> None:
        self.costs = Costs()
        self.kind = kind
        self.store = SpeedStore(home, self.costs, device, lambda: day)
        self.store.load()

    def report(self, *, version: str = "1", identity: str = "sha256:1") -> EngineReport:
        """The engine is told of."""
        report = EngineReport(GPU, self.kind, version, 1, ((Replica(M, identity), True),))
        for key in keys_of(report):
            self.costs.identify(key)
        return report

    def learns(self, usage: Usage = MEASURED) -> None:
        """A request ends."""
        self.costs.learn(GPU, M, usage, Timing(), kind=self.kind)
        self.costs.learn_output(ask("r"), usage.output_tokens or 0)

    @property
    def decode(self) -> float:
        """The decode rate, as known."""
        return self.costs.rates(GPU, self.kind, M).decode


def lived(home: Path, **facts: Any) -> Life:
    """A life in which something was learned, and its end."""
    life = Life(home, **facts)
    life.report()
    life.learns()
    life.store.save()
    return life


def test_the_next_life_begins_with_what_was_known(tmp_path: Path) -> None:
    """Speeds, and how long replies are; and it knows that it knows."""
    lived(tmp_path)
    life = Life(tmp_path)
    assert life.store.knows(life.report())
    assert life.decode == pytest.approx(50.0, rel=0.01)
    assert life.costs.expected_output(ask("r", limit=None)) < 300.0


@pytest.mark.parametrize("change", [{"version": "2"}, {"identity": "sha256:2"}])
def test_another_version_or_content_is_not_known(tmp_path: Path, change: dict[str, str]) -> None:
    """It is measured anew."""
    lived(tmp_path)
    life = Life(tmp_path)
    assert not life.store.knows(life.report(**change))
    assert life.decode == PRIORS["ollama"].decode


def test_another_machine_is_not_known_and_not_forgotten(tmp_path: Path) -> None:
    """A card that was put in; and when it is taken out again, all is as it was."""
    lived(tmp_path)
    other = lived(tmp_path, device="machine with a card")
    assert other.decode == pytest.approx(50.0, rel=0.01)
    assert len(json.loads((tmp_path / FILE).read_text())["speeds"]) == 2
    life = Life(tmp_path)
    assert life.store.knows(life.report())


def test_a_speed_that_is_a_setting_is_not_kept(tmp_path: Path) -> None:
    """The paced engine's may be another with the next start."""
    lived(tmp_path, kind="paced")
    assert json.loads((tmp_path / FILE).read_text())["speeds"] == []


def test_the_file_is_private_and_tells_nothing_of_prompts(tmp_path: Path) -> None:
    """Mode 0600; of kinds of requests only the models."""
    life = Life(tmp_path)
    life.report()
    life.costs.learn_output(ask("secret-id", prefix=(4711,), client="secret-client"), 77)
    life.learns()
    life.store.save()
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600
    text = (tmp_path / FILE).read_text()
    assert "secret" not in text
    assert "4711" not in text
    assert [one["model"] for one in json.loads(text)["lengths"]] == [M]


def test_nothing_is_written_when_nothing_was_learned(tmp_path: Path) -> None:
    """Not even a file."""
    life = Life(tmp_path)
    life.report()
    life.store.save()
    assert not (tmp_path / FILE).exists()
    life.learns()
    life.store.save()
    (tmp_path / FILE).unlink()
    life.store.save()
    assert not (tmp_path / FILE).exists()


def test_what_was_not_used_for_a_season_is_forgotten(tmp_path: Path) -> None:
    """Ninety days after something was last learned, not after it was last read."""
    lived(tmp_path, day=100)
    for day in (100 + MOST_DAYS - 1, 100 + MOST_DAYS):
        life = Life(tmp_path, day=day)
        assert life.store.knows(life.report())
        life.costs.changes += 1
        life.store.save()
    life = Life(tmp_path, day=100 + MOST_DAYS + 1)
    assert not life.store.knows(life.report())


def test_what_is_kept_is_bounded(tmp_path: Path) -> None:
    """The oldest go."""
    for day in range(2):
        life = Life(tmp_path, day=day)
        for version in range(MOST_SPEEDS):
            life.report(version=f"{day}.{version}")
            life.learns()
        life.store.save()
    kept = json.loads((tmp_path / FILE).read_text())["speeds"]
    assert len(kept) == MOST_SPEEDS
    assert {one["day"] for one in kept} == {1}
    assert (tmp_path / FILE).stat().st_size < speeds_module.MOST_BYTES / 2


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"nonsense",
        b"\xff\xfe",
        b"[]",
        b'{"schema": 0}',
        b'{"schema": 2, "speeds": []}',
        b'{"schema": 1, "speeds": 7}',
        b'{"schema": 1, "lengths": [{"day": 20000, "model": "m:latest", "tokens": [-5]}]}',
    ],
)
def test_a_file_that_cannot_be_used_is_said_so_once(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """The daemon starts from the priors and writes it anew."""
    (tmp_path / FILE).write_bytes(content)
    (tmp_path / FILE).chmod(0o600)
    with caplog.at_level(logging.WARNING):
        life = Life(tmp_path)
        life.store.load()
    assert [FILE in record.getMessage() for record in caplog.records] == [True]
    life.report()
    life.learns()
    life.store.save()
    again = Life(tmp_path)
    assert again.store.knows(again.report())


def test_a_file_that_others_can_read_is_not_believed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And the person hears what to do."""
    lived(tmp_path)
    (tmp_path / FILE).chmod(0o644)
    with caplog.at_level(logging.WARNING):
        life = Life(tmp_path)
    assert "chmod 600" in caplog.text
    assert not life.store.knows(life.report())


def test_numbers_that_cannot_be_are_not_believed(tmp_path: Path) -> None:
    """A rate of e to the thousand, a curve with holes."""
    lived(tmp_path)
    kept = json.loads((tmp_path / FILE).read_text())
    for spoil in (
        lambda facts: facts["prefill"].update(log_mean=1000.0),
        lambda facts: facts["decode"].update(levels=[1.0]),
    ):
        spoilt = json.loads(json.dumps(kept))
        spoil(spoilt["speeds"][0]["facts"])
        (tmp_path / FILE).write_text(json.dumps(spoilt))
        life = Life(tmp_path)
        assert not life.store.knows(life.report())


def test_a_home_that_cannot_be_written_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What is known stays known in this life."""
    life = Life(tmp_path / "gone")
    life.report()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            life.learns()
            life.store.save()
    assert len(caplog.records) == 1
    assert life.decode == pytest.approx(50.0, rel=0.01)


def test_a_full_disk_is_said_once_and_what_was_learned_is_kept_when_there_is_room(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F35: it goes on by itself, though nothing new was learned since; a second time is said again."""

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    life = Life(tmp_path)
    life.report()
    caplog.set_level(logging.INFO)
    for _ in range(2):
        life.learns()
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            for _ in range(3):
                life.store.save()
        life.store.save()
        again = Life(tmp_path)
        again.report()
        assert again.decode == pytest.approx(50.0, rel=0.01)
    said = [record.getMessage() for record in caplog.records]
    assert [("No space left" in text, "is written again" in text) for text in said] == [
        (True, False), (False, True)
    ] * 2  # fmt: skip


def test_it_saves_while_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash loses no more than was learned since."""
    monkeypatch.setattr(speeds_module, "SAVE_S", 0.01)
    life = Life(tmp_path)
    life.report()

    async def scene() -> None:
        task = asyncio.create_task(life.store.run())
        life.learns()
        await eventually((tmp_path / FILE).exists)
        task.cancel()

    run_async(scene())
    assert Life(tmp_path).costs.speeds()


def test_an_engine_of_another_number_of_threads_is_another_machine(tmp_path: Path) -> None:
    """The embedded engine's speed depends on it."""
    costs = Costs()
    with SpeedStore.here(tmp_path, costs, [EngineSettings(kind="embedded", threads=1)]):
        report = EngineReport(GPU, "embedded", "1", 1, ((Replica(M, ""), True),))
        for key in keys_of(report):
            costs.identify(key)
        costs.learn(GPU, M, MEASURED, Timing())
    one = SpeedStore.here(tmp_path, Costs(), [EngineSettings(kind="embedded", threads=1)])
    two = SpeedStore.here(tmp_path, Costs(), [EngineSettings(kind="embedded", threads=2)])
    for store in (one, two):
        store.load()
    assert (one.knows(report), two.knows(report)) == (True, False)
