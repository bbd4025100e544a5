import asyncio
import tomllib
from pathlib import Path

import pytest

from pairproxy.cli.bench.overhead.building import Programs
from pairproxy.cli.bench.overhead.daemons import PAIRED, PAIRPROXY, SLOTS, settings
from pairproxy.cli.bench.overhead.processes import what_is_missing
from pairproxy.cli.bench.overhead.targets import Target
from tests.cli.bench.overhead.test_targets import streamed


def test_a_daemon_has_one_engine_and_all_that_is_on_by_itself() -> None:
    """Nothing is switched off: only ports, and peers on this machine, are set."""
    found = tomllib.loads(settings("name", "http://127.0.0.1:1"))
    assert found.keys() == {"node", "peers", "admin", "engines"}
    (engine,) = found["engines"]
    assert (engine["url"], engine["slots"]) == ("http://127.0.0.1:1", SLOTS)


@pytest.mark.slow
@pytest.mark.skipif(what_is_missing() is not None, reason=str(what_is_missing()))
@pytest.mark.parametrize("target", [PAIRPROXY, PAIRED], ids=lambda target: target.name)
def test_a_stream_arrives_whole(target: Target, programs: Programs, tmp_path: Path) -> None:
    """From the engine here, and from the one of a paired daemon."""
    assert asyncio.run(streamed(target, programs, tmp_path)).count(b"TS=") == 3
    logs = sorted(path.parent.name for path in tmp_path.rglob("log"))
    assert logs == (["here", "there"] if target.is_pair else ["alone"])
