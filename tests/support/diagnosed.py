"""Made-up facts of a healthy machine, for what judges them: change one and see what is found."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from pairproxy import __version__
from pairproxy.api.models import ModelCell, ModelMatrix, ModelRow
from pairproxy.api.schema import DaemonFile, EngineStatus, NodeStatus, Status
from pairproxy.config import Settings
from pairproxy.doctor.examining import judge
from pairproxy.doctor.facts import Card, Facts, Firewall, Listener, Machine, Place, Process, SeenEngine
from pairproxy.security.peer_record import PeerRecord
from tests.support.statuses import A, B, node, replica

FRONT, ENGINE, PEERS = 11434, 11534, 11634
HOME = Path("/somewhere/anna/pairproxy")
OTHER = "10.0.0.2"


def peer(**changes: Any) -> NodeStatus:
    """The paired machine: up, and it listens here."""
    found = msgspec.structs.replace(
        node(B, "laptop"), hears_us=True, version=__version__, clock_ahead_s=0.2, address=f"{OTHER}:{PEERS}"
    )
    return msgspec.structs.replace(found, **changes)


def status(*others: NodeStatus, **changes: Any) -> Status:
    """This node with an Ollama and, by default, its one peer."""
    engine = EngineStatus(f"ollama-{ENGINE}", "ollama", "0.35.1", 1, 0, (replica(),), FRONT)
    nodes = (node(A, "desk", engine), *(others or (peer(),)))
    found = Status(
        version=__version__, node=A, name="desk", uptime_s=60.0, policy="fastest-finish", is_draining=False,
        queue_length=0, nodes=nodes, running=(), requests_done=0, discovery_problem=None, unpaired={},
        last_run=None, peer_port=PEERS,
    )  # fmt: skip
    return msgspec.structs.replace(found, **changes)


def matrix(*cells: ModelCell, fix: str = "") -> ModelMatrix:
    """One model on this node and the other."""
    here = ModelCell(A, "same", f"ollama-{ENGINE}", "sha256:1", True, 32768)
    there = cells or (ModelCell(B, "same", "gpu", "sha256:1", True, 32768),)
    return ModelMatrix(A, (A, B), {A: "desk", B: "laptop"}, (ModelRow("m:1b", 2, (here, *there), fix=fix),))


def engine(**changes: Any) -> SeenEngine:
    """The Ollama here."""
    found = SeenEngine(f"ollama-{ENGINE}", "ollama", "127.0.0.1", ENGINE, True, "0.35.1", slots=1, parallel=1)
    return replace(found, **changes)


def facts(**changes: Any) -> Facts:
    """Nothing is wrong with them but ``changes``."""
    daemon = DaemonFile(4711, A, "desk", 11633, PEERS, {f"ollama-{ENGINE}": FRONT})
    healthy = Facts(
        home=HOME,
        settings=Settings(),
        settings_problem="",
        daemon=daemon,
        status=status(),
        models=matrix(),
        peers=(PeerRecord(B, "laptop", b"", may_use_me=True, i_may_use=True),),  # type: ignore[arg-type]
        listeners=(
            Listener("127.0.0.1", FRONT, 4711, "pairproxy"),
            Listener("::1", FRONT, 4711, "pairproxy"),
            Listener("127.0.0.1", ENGINE, 4712, "ollama"),
        ),
        engines=(engine(),),
        places=(Place("home", HOME, 10**12), Place("cache", HOME / "cache", 10**12)),
        cards=(Card("eth0", "10.0.0.1", "10.0.0.0/24", (OTHER,)),),
        firewall=Firewall("nftables"),
        machine=Machine("3.13.0", "linux"),
        process=Process(4711, 20_000),
    )
    return replace(healthy, **changes)


def found(**changes: Any) -> list[str]:
    """The kinds of what is found, the worst first."""
    return [one.id for one in judge(facts(**changes), A, 0.0).findings]


def told(**changes: Any) -> str:
    """The one finding, in words."""
    (one,) = judge(facts(**changes), A, 0.0).findings
    return f"{one.means} {one.mend}"
