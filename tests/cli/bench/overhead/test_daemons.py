import asyncio
import tomllib
from pathlib import Path

import pytest

from pairproxy.cli.bench.overhead import daemons
from pairproxy.cli.bench.overhead.building import CannotBuild, Programs
from pairproxy.cli.bench.overhead.daemons import (
    PAIRED,
    PAIRED_PYTHON,
    PAIRPROXY,
    PYTHON,
    SLOTS,
    settings,
    why_not_compiled,
)
from pairproxy.cli.bench.overhead.processes import what_is_missing
from pairproxy.cli.bench.overhead.targets import Place, Target
from tests.cli.bench.overhead.test_targets import streamed


def test_a_daemon_has_one_engine_and_all_that_is_on_by_itself() -> None:
    """Nothing is switched off: only ports, and peers on this machine, are set."""
    found = tomllib.loads(settings("name", "http://127.0.0.1:1"))
    assert found.keys() == {"node", "peers", "admin", "engines"}
    (engine,) = found["engines"]
    assert (engine["url"], engine["slots"]) == ("http://127.0.0.1:1", SLOTS)


def test_where_nothing_can_be_compiled_it_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a daemon of the checkout is taken in its place."""

    async def refuses(parent: Path) -> Path:
        raise CannotBuild("there is no C compiler")

    monkeypatch.setattr(daemons, "compiled_package", refuses)
    monkeypatch.setattr(daemons, "_failed", {})
    assert asyncio.run(why_not_compiled(tmp_path)) == "there is no C compiler"
    place = Place(tmp_path, 1, tmp_path, tmp_path)
    environment = asyncio.run(daemons._environment(place, is_compiled=True))
    assert environment == asyncio.run(daemons._environment(place, is_compiled=False))


@pytest.mark.slow
@pytest.mark.skipif(what_is_missing() is not None, reason=str(what_is_missing()))
@pytest.mark.parametrize("target", [PAIRPROXY, PYTHON, PAIRED, PAIRED_PYTHON], ids=lambda target: target.name)
def test_a_stream_arrives_whole(target: Target, programs: Programs, tmp_path: Path) -> None:
    """From the engine here, and from the one of a paired daemon."""
    assert asyncio.run(streamed(target, programs, tmp_path)).count(b"TS=") == 3
    logs = sorted(path.parent.name for path in tmp_path.rglob("log"))
    assert logs == (["here", "there"] if target.is_pair else ["alone"])
