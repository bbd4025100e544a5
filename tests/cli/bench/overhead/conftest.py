"""The compiled programs, the upstream that runs, and a small document for all that look at figures."""

import asyncio
import sys

import pytest

from pairproxy.cli.bench.overhead.building import CannotBuild, Programs, build
from pairproxy.cli.bench.overhead.document import Document, Entry
from pairproxy.cli.bench.overhead.figures import Figures
from pairproxy.config import cache_dir


@pytest.fixture(scope="session")
def programs() -> Programs:
    """Upstream and load generator, compiled once."""
    if sys.platform != "linux":
        pytest.skip("the programs are for Linux")
    try:
        return asyncio.run(build(cache_dir()))
    except CannotBuild as error:
        pytest.skip(str(error))


def made_figures(**given: float) -> Figures:
    """Figures of a target that is ten times as good as is asked, but for what is given."""
    usual = {
        "requests_per_s": 1000.0, "first_byte_p50_us": 100.0, "first_byte_p99_us": 200.0,
        "transit_p50_us": 50.0, "transit_p99_us": 90.0, "cpu_s_per_1000_requests": 0.1,
        "cpu_s_per_100k_chunks": 1.0, "peak_mb": 20.0, "grown_mb": 0.0,
    }  # fmt: skip
    return Figures(**{**usual, **given}, errors=0, unanswered=0)


@pytest.fixture
def document() -> Document:
    """nginx, the pass-through and pairproxy at four workloads; pairproxy is exactly nginx's equal."""
    entries = [
        Entry(target, case, made_figures(peak_mb=peak_mb))
        for case in ("json-1", "paced-512", "json-64", "stalled")
        for target, peak_mb in (("nginx", 20.0), ("pass-through", 40.0), ("pairproxy", 60.0))
    ]
    facts: dict[str, str | int | float] = {"cores": 2, "cpu": "a fast one", "kernel": "6.1", "load": 0.1}
    return Document(facts, 3, 2.0, {"nginx": "unbuffered"}, {"haproxy": "not on PATH"}, entries)
