from pairproxy.core.experiments.rigs import (
    at_speeds,
    box,
    client,
    equal,
    gpu_server,
    laptop,
    published_trio,
    ten_mixed,
    unequal_three,
)
from pairproxy.core.workload import MODEL


def test_the_clusters_are_what_their_experiments_say() -> None:
    """Slots, and how fast they are beside each other."""
    assert [node.engines[0].slots for node in unequal_three()] == [1, 4, 16]
    assert len(ten_mixed()) == 10
    assert [node.engines[0].rates[MODEL].decode for node in at_speeds(130.0, 50.0)] == [130.0, 50.0]
    assert client("c").engines == ()


def test_equal_nodes_are_equal() -> None:
    """But for their names."""
    first, second = equal(2, 3, cache_tokens=5)
    assert first.engines == second.engines
    assert first.node != second.node


def test_the_published_machines_are_as_far_apart_as_published() -> None:
    """1 : 0.9 : 2.86, and only the fast one's cache is chosen."""
    nodes = published_trio(7, slots=4)
    speeds = [node.engines[0].rates[MODEL].decode for node in nodes]
    assert [round(speed / speeds[0], 2) for speed in speeds] == [1.0, 0.9, 2.86]
    assert [node.engines[0].cache_tokens for node in nodes] == [100_000, 600_000, 7]


def test_machines_differ_by_their_kind() -> None:
    """The bend of the decode curve is that of the engine's kind."""
    kinds = {
        node.engines[0].kind: node.engines[0].rates[MODEL].beta for node in (laptop(), box(), gpu_server())
    }
    assert kinds == {"ollama": 0.8, "llamacpp": 0.15, "openai": 0.03}
