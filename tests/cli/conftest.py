"""One live pair of daemons for the commands that only read."""

from collections.abc import Iterator

import pytest

from tests.support.asking import Asker
from tests.support.daemons import Daemons, Node, settings, until


@pytest.fixture(scope="package")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Node]]:
    """Nodes A and B, connected; A has served a run of four called "nightly"."""
    with Daemons(tmp_path_factory.mktemp("live")) as daemons:
        daemons.home("A", settings())
        daemons.home("B", settings())
        daemons.pair("A", "B")
        nodes = daemons.start("A", "B")
        daemons.until_connected()
        asker = Asker(nodes[0].port, headers={"X-Pairproxy-Run": "nightly"})
        for reply in [asker.start(f"task {number}", tokens=20) for number in range(4)]:
            assert reply.result().is_whole
        until(lambda: len(nodes[0].report("nightly").records) == 4, "the run is recorded")
        yield nodes
