"""Made-up statuses for what draws them: a small cluster at work, the largest there is, and random ones."""

import msgspec
from hypothesis import strategies as st

from pairproxy.api.limiting import what_limits
from pairproxy.api.schema import (
    EngineStatus,
    NodeStatus,
    ReplicaStatus,
    RunningStatus,
    RunProgress,
    Status,
    WaitingStatus,
)

A, B, C = ("A" * 52, "B" * 52, "C" * 52)


def replica(model: str = "m:1b") -> ReplicaStatus:
    """Loaded."""
    return ReplicaStatus(model, "id", True, 4096, 2000.0, 60.0)


def engine(
    slots: int = 1, in_flight: int = 0, name: str = "gpu", models: tuple[str, ...] = ("m:1b",)
) -> EngineStatus:
    """One that answers."""
    return EngineStatus(name, "ollama", "1", slots, in_flight, tuple(replica(model) for model in models))


def node(
    id: str = A,  # noqa: A002
    name: str = "desk",
    *engines: EngineStatus,
    is_up: bool = True,
    problem: str | None = None,
    rates: tuple[float, ...] = (),
) -> NodeStatus:
    """This one, or a peer; ``rates``: tokens per second over time."""
    return NodeStatus(
        id,
        name,
        is_self=id == A,
        is_up=is_up,
        engines=engines,
        found_by=None if id == A else "mdns",
        problem=problem,
        tokens_per_s=rates[-1] if rates else 0.0,
        recent_tokens_per_s=rates,
    )


def running(
    number: int, where: str = A, *, writes: bool = True, age_s: float = 1.5, run: str | None = None
) -> RunningStatus:
    """One that writes, or still reads."""
    return RunningStatus(
        f"{number:08x}" + "0" * 24,
        "m:1b",
        where,
        "gpu",
        age_s,
        writes,
        ttft_s=0.4 if writes else None,
        output_tokens=20 if writes else 0,
        run=run,
    )


def waiting(number: int, model: str = "m:1b", *, is_local: bool = False) -> WaitingStatus:
    """One that waits since three seconds."""
    return WaitingStatus(f"{number:08x}" + "0" * 24, model, 3.0, is_local=is_local)


def status(*nodes: NodeStatus, **fields: object) -> Status:
    """One of these nodes; ``limit`` and ``queue_length`` follow from the rest."""
    found = Status("1", A, "desk", 90.0, "fastest-finish", False, 0, nodes, (), 0, None, {}, None)
    found = msgspec.structs.replace(found, **fields)
    if "queue_length" not in fields:
        found = msgspec.structs.replace(found, queue_length=len(found.waiting))
    return msgspec.structs.replace(found, limit=what_limits(found))


def at_work() -> Status:
    """Three nodes, five of seven slots busy, a run of eighteen with nine waiting."""
    return status(
        node(A, "desk", engine(2, 2), rates=(0.0, 20.0, 60.0, 118.0)),
        node(B, "spark", engine(4, 3), rates=(0.0, 10.0, 30.0, 60.0)),
        node(C, "laptop", engine(1, 0), is_up=False, problem="it was stopped"),
        running=tuple(running(number, A if number < 2 else B, writes=number != 0) for number in range(4)),
        waiting=tuple(waiting(number) for number in range(9)),
        outcomes={"done": 4, "failed": 1},
        current_run=RunProgress("nightly", 12.0, 18, 5, 4, 9, 6, 3, 5 / 6, 6.0, 1.43, 1.85),
    )


def largest() -> Status:
    """Sixteen nodes with two engines each, 512 running and 256 waiting."""
    ids = [A, *(f"{number:052}" for number in range(1, 16))]
    return status(
        *(
            node(
                id, f"gpu-box-{number:02}", engine(32, 32), engine(32, 20, "two"), rates=(float(number),) * 60
            )
            for number, id in enumerate(ids)  # noqa: A001
        ),
        running=tuple(running(number, ids[number % 16], writes=number % 5 != 0) for number in range(512)),
        waiting=tuple(waiting(number) for number in range(256)),
        current_run=RunProgress("big", 300.0, 2000, 1232, 512, 256, 1024, 2, 1.2, 1000.0, 10.5, 12.0),
    )


_names = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        ("", "\x1b[2J\x1b]0;x\x07", "模型" * 20, "👩🏽‍🚀❤️🇩🇪", "a\u202eb", "hf.co/u/Qwen3-30B-A3B:Q4_K_M")
    ),
)
_counts = st.integers(0, 300)
_seconds = st.floats(0.0, 1e7)
_engines = st.builds(
    EngineStatus,
    engine=st.sampled_from(("gpu", "two")),
    kind=_names,
    version=st.just("1"),
    slots=_counts,
    in_flight=_counts,
    replicas=st.lists(st.builds(replica, _names), max_size=3).map(tuple),
    is_up=st.booleans(),
    foreign=st.integers(0, 5),
)
_nodes = st.builds(
    NodeStatus,
    node=st.sampled_from((A, B, C)),
    name=_names,
    is_self=st.booleans(),
    is_up=st.booleans(),
    engines=st.lists(_engines, max_size=3).map(tuple),
    found_by=st.one_of(st.none(), _names),
    problem=st.one_of(st.none(), _names),
    models_differ=st.lists(_names, max_size=3).map(tuple),
    tokens_per_s=_seconds,
    recent_tokens_per_s=st.lists(_seconds, max_size=60).map(tuple),
)
_running = st.builds(
    RunningStatus,
    request=_names,
    model=_names,
    node=st.one_of(st.none(), st.sampled_from((A, B, C))),
    engine=st.one_of(st.none(), st.sampled_from(("gpu", "two"))),
    age_s=_seconds,
    has_first_byte=st.booleans(),
    attempt=st.integers(1, 3),
    ttft_s=st.one_of(st.none(), _seconds),
    run=st.one_of(st.none(), _names),
    origin=st.one_of(st.none(), _names),
    output_tokens=st.integers(0, 10**9),
)
_waiting = st.builds(
    WaitingStatus, request=_names, model=_names, age_s=_seconds, run=st.one_of(st.none(), _names)
)
_runs = st.builds(
    RunProgress,
    run=_names,
    age_s=_seconds,
    requests=_counts,
    ended=_counts,
    running=_counts,
    waiting=_counts,
    slots=_counts,
    waves=_counts,
    waves_done=st.floats(0.0, 300.0),
    bound_waves=st.floats(0.0, 300.0),
    speedup=st.one_of(st.none(), st.floats(0.0, 300.0)),
    bound_provable=st.one_of(st.none(), st.floats(0.0, 300.0)),
)


@st.composite
def statuses(draw: st.DrawFn) -> Status:
    """Any status, also ones that no daemon would tell."""
    return status(
        *draw(st.lists(_nodes, max_size=12)),
        name=draw(_names),
        running=tuple(draw(st.lists(_running, max_size=12))),
        waiting=tuple(draw(st.lists(_waiting, max_size=12))),
        queue_length=draw(_counts),
        outcomes=draw(st.dictionaries(st.sampled_from(("done", "failed", "cancelled")), _counts)),
        unpaired=draw(st.dictionaries(_names, _names, max_size=12)),
        discovery_problem=draw(st.one_of(st.none(), _names)),
        loop_lag_s=draw(st.floats(0.0, 5.0)),
        current_run=draw(st.one_of(st.none(), _runs)),
        is_draining=draw(st.booleans()),
    )
