"""The command: its options, its order of steps."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pairproxy.cli.ending import run_to_its_end
from pairproxy.cli.options import Home, Json, home_or_default

if TYPE_CHECKING:
    from pairproxy.cli.bench.rig import NodeSpec
    from pairproxy.cli.bench.rounds import Plan

WorkloadName = Annotated[
    str, typer.Option("--workload", help="burst, published (five sub-agents), chains, one-chain or prefixes.")
]
Count = Annotated[
    int | None, typer.Option(min=1, max=256, help="How many requests, or chains. Default: as is usual.")
]
Policies = Annotated[str, typer.Option(help="Which policies to compare, with commas.")]
Nodes = Annotated[
    list[str] | None,
    typer.Option(
        help="A node: NAME=SLOTS:PREFILL:DECODE[:BETA[:CACHED]] in tokens/s and tokens; several times. "
        "Default: laptop, box and gpu, 1 : 1.5 : 4; for published: laptop, spark, rtx-5090."
    ),
]
Slots = Annotated[int, typer.Option(min=1, max=64, help="Of each node, without --node.")]
Origins = Annotated[int, typer.Option(min=1, max=8, help="At how many nodes clients ask.")]
Rounds = Annotated[int, typer.Option(min=1, max=50, help="How often each policy is run.")]
FastForward = Annotated[
    float | None,
    typer.Option(
        min=1.0,
        max=200.0,
        help="How many times faster than real the engines run. Default: 20; of chains 8: seven minutes.",
    ),
]
Seed = Annotated[int, typer.Option(help="Of the lengths of requests.")]
Keep = Annotated[
    bool,
    typer.Option("--keep", help="Keep the daemons between rounds: then they know how long replies are."),
]
HereFlag = Annotated[
    bool,
    typer.Option(
        "--here",
        help="Ask the daemon that runs here, with its own models: a few requests, alone and together.",
    ),
]
Model = Annotated[str | None, typer.Option(help="With --here: which model. Default: the first.")]
Yes = Annotated[bool, typer.Option("--yes", help="With --here: do not ask before sending.")]
LeversFlag = Annotated[
    bool,
    typer.Option(
        "--levers",
        help="What routing, prefix affinity and slots gain on a run of yours, each alone and together. "
        "Simulated; with --here measured as far as it can be.",
    ),
]
Run = Annotated[str | None, typer.Option(help="With --levers: a run's name, or its id. Default: the last.")]

SINGLE_ORIGIN = ("published", "one-chain")
OF_HERE = ("requests", "rounds", "here", "model", "yes", "home", "as_json")
"""What --here heeds of the options."""
ONLY_OF_HERE = ("model", "yes")
OF_LEVERS = ("levers", "run", "rounds", "home", "as_json")
"""What --levers heeds; with --here also what belongs to that alone."""


def bench(
    context: typer.Context,
    workload: WorkloadName = "burst",
    requests: Count = None,
    policies: Policies = "fastest-finish,least-busy",
    node: Nodes = None,
    slots: Slots = 1,
    origins: Origins = 1,
    rounds: Rounds = 3,
    fast_forward: FastForward = None,
    seed: Seed = 0,
    keep: Keep = False,
    here: HereFlag = False,
    model: Model = None,
    yes: Yes = False,
    levers: LeversFlag = False,
    run: Run = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Compare policies, the best single node and the bounds, on daemons with paced engines on this machine.

    Examples: `pairproxy bench`, `pairproxy bench --workload published --fast-forward 40`,
    `pairproxy bench --node gpu=4:2000:120 --node mini=1:400:20 --origins 2`, `pairproxy bench --here`,
    `pairproxy bench --levers --run nightly`.
    """
    if levers:
        _check_levers(context, here)
        _levers(home_or_default(home), run, model, rounds, is_here=here, is_agreed=yes, as_json=as_json)
        return
    _check_here(context, here)
    if here:
        from pairproxy.cli.bench.here import bench_here

        bench_here(home_or_default(home), model, requests or 6, rounds, is_agreed=yes, as_json=as_json)
        return
    nodes = _nodes(workload, node, slots)
    _run(_plan(workload, requests, policies, nodes, origins, rounds, fast_forward, seed, keep), as_json)


def _check_here(context: typer.Context, is_here: bool) -> None:
    """Whatever is given is heeded. Raises BadParameter for what would not be."""
    for name in context.params:
        is_heeded = name in OF_HERE if is_here else name not in (*ONLY_OF_HERE, "run")
        source = context.get_parameter_source(name)
        if not is_heeded and source is not None and source.name == "COMMANDLINE":
            why = "not with --here" if is_here else "only with --here"
            why = "only with --levers" if name == "run" else why
            raise typer.BadParameter(why, param_hint=f"--{name.replace('_', '-')}")


def _check_levers(context: typer.Context, is_here: bool) -> None:
    """Whatever is given is heeded. Raises BadParameter for what would not be."""
    heeded = (*OF_LEVERS, "here", *ONLY_OF_HERE) if is_here else OF_LEVERS
    for name in context.params:
        source = context.get_parameter_source(name)
        if name not in heeded and source is not None and source.name == "COMMANDLINE":
            why = "only with --here" if name in ONLY_OF_HERE else "not with --levers"
            raise typer.BadParameter(why, param_hint=f"--{name.replace('_', '-')}")


def _levers(
    home: Path,
    run: str | None,
    model: str | None,
    rounds: int,
    *,
    is_here: bool,
    is_agreed: bool,
    as_json: bool,
) -> None:
    if is_here:
        from pairproxy.cli.bench.levers_here import bench_levers_here

        bench_levers_here(home, run, model, rounds, is_agreed=is_agreed, as_json=as_json)
        return
    from pairproxy.cli.bench.levers import bench_levers

    bench_levers(home, run, rounds, as_json=as_json)


def _run(plan: "Plan", as_json: bool) -> None:
    from pairproxy.cli.bench import show
    from pairproxy.cli.bench.rounds import run_bench

    result = run_to_its_end(run_bench(plan, lambda line: None if as_json else typer.echo(line, err=True)))
    if as_json:
        typer.echo(show.to_json(result))
    else:
        show.report(result)


def _nodes(workload: str, texts: list[str] | None, slots: int) -> tuple["NodeSpec", ...]:
    """The nodes that are given, or the usual ones. Raises BadParameter, PairproxyError."""
    from pairproxy.cli.bench import rig

    usual = rig.published() if workload == "published" else rig.unequal(slots)
    nodes = tuple(map(rig.read_node, texts)) if texts else usual
    if len(nodes) > rig.MOST_NODES:
        raise typer.BadParameter(f"{rig.MOST_NODES} nodes at most", param_hint="--node")
    if len({one.name for one in nodes}) < len(nodes):
        raise typer.BadParameter("two nodes have one name", param_hint="--node")
    return nodes


def _plan(
    workload: str,
    requests: int | None,
    policies: str,
    nodes: tuple["NodeSpec", ...],
    origins: int,
    rounds: int,
    fast_forward: float | None,
    seed: int,
    keep: bool,
) -> "Plan":
    """Everything checked before anything starts. Raises BadParameter."""
    from pairproxy.cli.bench import rig, workloads
    from pairproxy.cli.bench.rounds import Plan
    from pairproxy.core.policies import POLICIES

    wanted = tuple(name.strip() for name in policies.split(",") if name.strip())
    if workload not in workloads.WORKLOADS:
        choices = ", ".join(workloads.WORKLOADS)
        raise typer.BadParameter(f"{workload!r} is none of {choices}", param_hint="--workload")
    if not wanted or not set(wanted) <= POLICIES.keys():
        choices = ", ".join(POLICIES)
        raise typer.BadParameter(f"{policies!r} names others than {choices}", param_hint="--policies")
    if origins > len(nodes):
        raise typer.BadParameter(f"there are {len(nodes)} nodes", param_hint="--origins")
    if workload in SINGLE_ORIGIN and origins > 1:
        raise typer.BadParameter(f"{workload} is asked at one node", param_hint="--origins")
    if workload == "one-chain" and requests not in (None, 1):
        raise typer.BadParameter("one-chain is one; chains takes a number", param_hint="--requests")
    count = requests or workloads.COUNTS[workload]
    made = workloads.WORKLOADS[workload](count, rig.names(nodes)[:origins], seed)
    pace = fast_forward or workloads.PACES[workload]
    return Plan(made, rig.Rig(nodes, pace), wanted, rounds, seed, keep)
