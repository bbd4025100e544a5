"""The same engine without a proxy: what a client gets that asks it directly."""

import secrets
from dataclasses import replace

from pairproxy.cli.bench.asking import Line, ask_all
from pairproxy.cli.bench.legs import Leg
from pairproxy.cli.bench.rig import Rig
from pairproxy.cli.bench.workloads import Workload
from pairproxy.config import PacedSettings
from pairproxy.engines.paced import PacedEngine


async def ask_directly(workload: Workload, rig: Rig) -> Leg:
    """One leg on the rig's only engine, started in this process. Raises PairproxyError in a group."""
    (node,) = rig.nodes
    settings = PacedSettings(
        prefill=node.prefill,
        decode=node.decode,
        beta=node.beta,
        cached_tokens=node.cached_tokens,
        fast_forward=rig.fast_forward,
    )
    engine = PacedEngine(settings, slots=node.slots)
    await engine.start()
    try:
        _, port = engine.address("/v1")
        ports = dict.fromkeys(workload.origins, port)
        line = Line(ports, settings.model, "direct", secrets.token_hex(4), rig.fast_forward)
        replies = await ask_all(workload.requests, line)
    finally:
        await engine.stop()
    return Leg(tuple(replace(one, node=node.name) for one in replies))
