"""What is told to the page in tests: a large run, and names that do harm where they are more than names."""

import msgspec

from pairproxy.api.advice import Advice, AdviceReport
from pairproxy.api.models import ModelCell, ModelMatrix, ModelRow
from pairproxy.api.runs import Runs, RunSummary
from pairproxy.api.schema import (
    AttemptStory,
    Candidate,
    EngineStatus,
    Explanation,
    NodeStatus,
    ReplicaStatus,
    Report,
    RunningStatus,
    RunProgress,
    Status,
    WaitingStatus,
)
from pairproxy.core.accounting.report import RunReport
from pairproxy.core.accounting.services import Tally
from pairproxy.core.accounting.timeline import Bar, Lane, Timeline
from pairproxy.core.models import EngineId, ModelName, NodeId, RequestId
from tests.web.showing import Facts

EVIL = (
    "<img src=x onerror=document.title='taken'>",
    "</script><script>document.title='taken'</script>",
    "javascript:document.title='taken'",
    "\u202egnp.exe\u2066",
    "a\nb\x00\x1b[31mred",
    "'\"><svg/onload=alert(1)>",
)
MODEL = "m:1"
VIEWS = ("", "runs", "models", "pairing", "requests/00000001")  # of the page: what stands behind the #


def name_of(node: int, *, is_evil: bool) -> str:
    """What a node calls itself."""
    return EVIL[node % len(EVIL)] if is_evil else f"node{node:02d}"


def report(requests: int, nodes: int, slots: int, *, is_evil: bool = False) -> Report:
    """A run in which every slot works without a pause; each tenth request fails if names are evil."""
    lanes = [
        Lane(NodeId(f"NODE{node}"), EngineId("engine"), slot + 1)
        for node in range(nodes)
        for slot in range(slots)
    ]
    ends, waves, bars = [0.0] * len(lanes), [0] * len(lanes), []
    for index in range(requests):
        lane = ends.index(min(ends))
        waves[lane] += 1
        sent = ends[lane]
        ends[lane] = sent + 1.0 + 0.1 * (index % 7)
        model = EVIL[index % len(EVIL)] if is_evil else MODEL
        end = EVIL[0] if is_evil and index % 10 == 0 else "done"
        request = RequestId(EVIL[1] if is_evil and index == 1 else f"{index:08x}")
        bars.append(
            Bar(
                request, 1, lane, waves[lane], ModelName(model), 0.0, sent, sent + 0.3, ends[lane], end,
                0.1 if sent == 0.0 else 0.0,
            )
        )  # fmt: skip
    makespan = max(ends)
    part = Tally(requests // nodes, 1000, 1000, makespan, 1 / nodes)
    run = RunReport(
        EVIL[0] if is_evil else "large", requests, {"done": requests},
        {NodeId(f"NODE{node}"): part for node in range(nodes)},
        makespan, 1.0, 2.0, 0.5, 0.9, len(lanes), float(len(lanes)), makespan * 0.8,
        bound_provable=12.0, speedup=9.5, efficiency=0.8, notes=(EVIL[2],) if is_evil else (),
    )  # fmt: skip
    names = {f"NODE{node}": name_of(node, is_evil=is_evil) for node in range(nodes)}
    line = Timeline(makespan, makespan * 0.8, tuple(lanes), tuple(bars), (), max(waves))
    return Report(run, (), names, None, (), "NODE0", line, 1_790_000_000.0)


def status(
    nodes: int, slots: int, running: int = 0, *, is_evil: bool = False, version: str = "0.1.0"
) -> Status:
    """A cluster; one node of three is down."""
    model = EVIL[0] if is_evil else MODEL
    replica = ReplicaStatus(model, "sha256:one", True, 4096, 1000.0, 50.0)
    engine = EngineStatus("engine", model, model, slots, slots // 2, (replica,))
    found = tuple(
        NodeStatus(
            f"NODE{node}",
            name_of(node, is_evil=is_evil),
            is_self=node == 0,
            is_up=node % 3 != 2,
            engines=(msgspec.structs.replace(engine, port=1234 if node == 0 else None),),
            found_by="mdns",
            address=EVIL[3] if is_evil else "10.0.0.1:11634",
            age_s=0.5,
            problem=model if node % 3 == 2 else None,
            models_differ=(model,) if is_evil else (),
            tokens_per_s=40.0,
            recent_tokens_per_s=tuple(float(index % 50) for index in range(60)),
        )
        for node in range(nodes)
    )  # fmt: skip
    return Status(
        version, "NODE0", found[0].name, 10.0, "fastest-finish", False, 2, found,
        tuple(
            RunningStatus(f"{index:08x}", model, f"NODE{index % nodes}", "engine", 1.0, index % 2 == 0)
            for index in range(running)
        ),
        5, EVIL[2] if is_evil else None, {"ABCDEFGH": EVIL[1]} if is_evil else {}, None,
        outcomes={"done": 5}, waiting=(WaitingStatus("ffffffff", model, 1.0),) if running else (),
        at_unix=1_790_000_100.0,
    )  # fmt: skip


def going_on(run: str, running: int) -> Status:
    """Three nodes of two slots in the sixth second of a run; requests of it were sent in the fifth."""
    told = status(3, 2)
    requests = tuple(
        RunningStatus(f"run{index}", MODEL, f"NODE{index % 3}", "engine", 1.0, True, ttft_s=0.4, run=run)
        for index in range(running)
    )
    return msgspec.structs.replace(
        told,
        running=requests,
        current_run=RunProgress(run, 6.0, 30, 20, running, 10 - running, 6, 5, 3.3, 6.0),
    )


def explanation(name: str) -> Explanation:
    """One request, decided among two nodes."""
    candidates = tuple(
        Candidate(f"NODE{node}", name, 1.0, 0.5, 0.0, 0.2, 0.3, 0.0, 0.0, 0.0, 0.0, 10, 1, 2)
        for node in range(2)
    )
    attempt = AttemptStory(1, "NODE0", name, name, name, name, 0.1, 0.4, 1.0, 0.3, 0.9, 10, candidates)
    return Explanation(
        "00000001", name, name, name, "failed", name, 3.0, name, name, "NODE1", 0.1, 1.0, 10, 0, 20,
        (attempt,), {"NODE0": name, "NODE1": name},
    )  # fmt: skip


def evil() -> Facts:
    """Everything that anybody named is an attack."""
    bad = EVIL[0]
    facts = Facts(status(3, 2, 4, is_evil=True), report(30, 3, 2, is_evil=True), explanation(bad))
    cells = tuple(ModelCell(f"NODE{node}", "different", bad, bad) for node in range(3))
    row = ModelRow(bad, 1, cells, (EVIL[1],), EVIL[2], EVIL[0])
    run = RunSummary(bad, EVIL[1], 1_790_000_000.0, 9.0, 30, {bad: 30}, 3, 6, 6.0, None, 1.5, 0.9, 100)
    names = {f"NODE{node}": name_of(node, is_evil=True) for node in range(3)}
    facts.documents = {
        "/models": ModelMatrix("NODE0", tuple(names), names, (row,)),
        "/runs": Runs("NODE0", (run,), True, bad),
        "/advice": AdviceReport(
            "NODE0", bad, 30, (Advice("nothing", False, bad, {bad: 1.0}),), missing=(bad,)
        ),
    }
    return facts


def large(requests: int = 2000, nodes: int = 16, slots: int = 4) -> Facts:
    """A run of thousands of requests on many nodes."""
    facts = Facts(status(nodes, slots), report(requests, nodes, slots), explanation("m"))
    names = {f"NODE{node}": name_of(node, is_evil=False) for node in range(nodes)}
    cells = tuple(ModelCell(node, "same", "engine", "sha256:one", True, 4096, slots) for node in names)
    facts.documents = {
        "/models": ModelMatrix("NODE0", tuple(names), names, (ModelRow(MODEL, nodes, cells),)),
        "/runs": Runs("NODE0", ()),
        "/advice": AdviceReport("NODE0", "large", requests, ()),
    }
    return facts
