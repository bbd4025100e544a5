import os

from pairproxy import __version__
from pairproxy.cli.bench.overhead.facts import facts


def test_a_machine_is_told_with_its_versions() -> None:
    """Cores, kernel, and what stands there."""
    found = facts()
    assert (found["cores"], found["kernel"], found["pairproxy"]) == (
        os.cpu_count(),
        os.uname().release,
        __version__,
    )
    assert {"python", "aiohttp", "cpu", "load"} <= found.keys()
