import msgspec

from pairproxy.api.results import BenchHere, DemoResult, Reply, WhatIf
from pairproxy.core.accounting.comparison import LegResult, compare
from pairproxy.core.accounting.services import Service
from pairproxy.core.models import EngineId, NodeId, Place
from pairproxy.core.whatif.replay import Replayed

A, B = Place(NodeId("a"), EngineId("e")), Place(NodeId("b"), EngineId("e"))


def test_results_come_back_as_they_were() -> None:
    """What is printed can be read with the same types."""
    replayed = Replayed(5, 0, 2.0, 2.1, 1.0, None, None, {"a": 5}, 0.5, "fastest-finish")
    told = WhatIf(replayed, replayed.model_error, replayed.is_credible, replayed.speedup, None)
    assert msgspec.json.decode(msgspec.json.encode(told), type=WhatIf) == told


def test_a_comparison_is_part_of_demo_and_bench() -> None:
    """Both tell of it whole, with the sentences that a person reads."""
    alone = LegResult(2.0, (Service(A, 0.0, 1.0), Service(A, 1.0, 2.0)))
    both = LegResult(1.0, (Service(A, 0.0, 1.0), Service(B, 0.0, 1.0)))
    found = compare([alone], [both], {A.node: 1, B.node: 1})
    bench = BenchHere("m:1", found, ("a sentence",))
    assert msgspec.json.decode(msgspec.json.encode(bench), type=BenchHere) == bench
    demo = DemoResult(
        2, 2, "paced", 1, "mdns", 2.0, 1.0, found.speedup, found.bound_waves, found.bound_provable,
        found.efficiency, found.efficiency_against, found.why, {"A": found.per_node[A.node]}, found, (),
        (Reply("ollama", "hello"),),
    )  # fmt: skip
    assert msgspec.json.decode(msgspec.json.encode(demo), type=DemoResult) == demo
