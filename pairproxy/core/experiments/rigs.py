"""The clusters of the experiments. Rates are tokens/s of a mid-size model on each kind of machine.

From the kind of an engine the scheduler takes the bend of its decode curve until it has seen it: 0.03 for
vLLM ("openai"), 0.15 for llama.cpp, 0.8 for Ollama.
"""

from pairproxy.core.models import NodeId, Rates
from pairproxy.core.workload import SimNode

PUBLISHED_SPEEDUP = 2.86  # of the RTX 5090 over the laptop, in the published demonstration


def gpu_server(name: str = "server", slots: int = 16, cache_tokens: int | None = None) -> SimNode:
    """A machine with a large GPU and vLLM."""
    return SimNode.of(name, slots, Rates(8000.0, 60.0, 0.03), kind="openai", cache_tokens=cache_tokens)


def box(name: str = "box", slots: int = 4, cache_tokens: int | None = None) -> SimNode:
    """A desktop with one GPU and llama.cpp."""
    return SimNode.of(name, slots, Rates(2000.0, 45.0, 0.15), kind="llamacpp", cache_tokens=cache_tokens)


def laptop(name: str = "laptop", slots: int = 1, cache_tokens: int | None = None) -> SimNode:
    """A laptop."""
    return SimNode.of(name, slots, Rates(500.0, 20.0, 0.8), kind="ollama", cache_tokens=cache_tokens)


def client(name: str) -> SimNode:
    """A machine with a daemon and no engine: an origin only."""
    return SimNode(NodeId(name), ())


def unequal_three() -> list[SimNode]:
    """E1: a 16-slot GPU server, a 4-slot box, a 1-slot laptop."""
    return [laptop(), box(), gpu_server()]


def at_speeds(*decode: float, slots: int = 1, beta: float = 0.15) -> list[SimNode]:
    """Nodes alike but for their speed: they read 30 times as fast as they write."""
    return [
        SimNode.of(f"node{index}", slots, Rates(30.0 * speed, speed, beta), kind="llamacpp")
        for index, speed in enumerate(decode)
    ]


def equal(count: int, slots: int, *, cache_tokens: int | None = None, decode: float = 50.0) -> list[SimNode]:
    """Equal nodes with a GPU each."""
    rates = Rates(80.0 * decode, decode, 0.05)
    return [
        SimNode.of(f"node{index}", slots, rates, kind="paced", cache_tokens=cache_tokens)
        for index in range(count)
    ]


def ten_mixed(cache_tokens: int | None = 60_000) -> list[SimNode]:
    """E3: two small servers, three boxes, five laptops of two speeds."""
    servers = [gpu_server(f"server{one}", 8, cache_tokens) for one in range(2)]
    boxes = [box(f"box{one}", 4, cache_tokens) for one in range(3)]
    rates = Rates(1000.0, 35.0, 0.15)
    laptops = [
        SimNode.of(f"laptop{one}", 1 + one % 2, rates, kind="llamacpp", cache_tokens=cache_tokens)
        for one in range(5)
    ]
    return [*servers, *boxes, *laptops]


def published_trio(cache_tokens: int | None = None, slots: int = 1) -> list[SimNode]:
    """E17: a laptop, a DGX Spark and an RTX 5090; decode as 1 : 0.9 : 2.86, as in the published table.

    With one slot each, as published, the 5090 writes 115 tokens/s; with more, 70 for one alone. Prefill of
    such machines for a mid-size model: 800, 2,000 and 5,000 tokens/s. ``cache_tokens`` is the room of the
    5090; the Spark has memory for 600k tokens, the laptop for 100k.
    """
    fast, beta = (115.0, 0.15) if slots == 1 else (70.0, 0.2)
    machines = (
        ("laptop", 800.0, 1.0, 100_000),
        ("spark", 2000.0, 0.9, 600_000),
        ("rtx5090", 5000.0, PUBLISHED_SPEEDUP, cache_tokens),
    )
    return [
        SimNode.of(
            name,
            slots,
            Rates(prefill, fast / PUBLISHED_SPEEDUP * speed, beta),
            kind="llamacpp",
            cache_tokens=room,
        )
        for name, prefill, speed, room in machines
    ]
