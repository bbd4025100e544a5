import asyncio
from pathlib import Path

import pytest

from pairproxy.cli.bench.overhead.building import Programs
from pairproxy.cli.bench.overhead.processes import what_is_missing
from pairproxy.cli.bench.overhead.rounds import upstream
from pairproxy.cli.bench.overhead.targets import (
    DIRECT,
    HAPROXY,
    NGINX,
    OPENAI_PATH,
    PLAIN,
    PLAIN_UVLOOP,
    Place,
    Target,
)
from pairproxy.config import cache_dir
from tests.cli.bench.overhead.test_building import ask

pytestmark = pytest.mark.skipif(what_is_missing() is not None, reason=str(what_is_missing()))
ALL = (DIRECT, NGINX, HAPROXY, PLAIN, PLAIN_UVLOOP)
CACHE = cache_dir()
MODEL_REQUEST = b'{"model": "bench:latest", "stream": true, "messages": []}'


async def streamed(target: Target, programs: Programs, tmp_path: Path) -> bytes:
    """What a stream of the upstream's is when it went through the target."""
    async with upstream(programs, tmp_path) as port:
        await asyncio.to_thread(ask, port, "GET", "/set?tokens=3&gap_us=0")
        place = Place(tmp_path / target.name, port, programs.upstream, CACHE)
        place.directory.mkdir()
        async with target.start(place) as running:
            status, body = await asyncio.to_thread(ask, running.port, "POST", OPENAI_PATH, MODEL_REQUEST)
            assert status == 200
            return body


@pytest.mark.slow
@pytest.mark.parametrize(
    "target", [DIRECT, NGINX, HAPROXY, PLAIN, PLAIN_UVLOOP], ids=lambda target: target.name
)
def test_each_passes_on_what_the_upstream_says(target: Target, programs: Programs, tmp_path: Path) -> None:
    """A stream arrives whole."""
    if target.missing:
        pytest.skip(f"{target.name} is {target.missing}")
    body = asyncio.run(streamed(target, programs, tmp_path))
    assert (body.count(b"TS="), body.endswith(b"data: [DONE]\n\n")) == (3, True)


def test_what_is_missing_is_told_with_its_package() -> None:
    """What to install; who needs nothing misses nothing."""
    absent = Target("x", "", DIRECT.start, needs=("no-such-program", "package"))
    assert absent.missing == "not on PATH (Debian: `apt install package`)"
    assert PLAIN.missing is None
    assert Place(Path(), 8080, Path(), Path()).upstream == "http://127.0.0.1:8080"
