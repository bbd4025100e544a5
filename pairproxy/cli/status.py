"""pairproxy status: the cluster on one page."""

from typing import TYPE_CHECKING

import typer

from pairproxy.cli.options import Home, Json, home_or_default, plain
from pairproxy.cli.printing import console, counted, show_table

if TYPE_CHECKING:
    from pairproxy.api.schema import NodeStatus, Status


TITLES = ("node", "engine", "model", "in use", "prefill", "decode", "")
MOST_SEEN = 8  # of the nodes that are not paired, in a network of many
MOST_RUNNING = 8  # requests that are listed: a screen has some 24 lines
LATE_S = 1.0  # a heartbeat: peers begin to see that something is wrong here
LEFT = frozenset(("node", "engine", "model", ""))
FOUND_BY = {  # NodeStatus.found_by in a person's words, short: a row has 80 characters
    "mdns": "via mDNS",
    "static": "via peers.static",
    "inbound": "via its own call",
    "remembered": "via last address",
    "pairing": "via pairing",
}


def status(home: Home = None, as_json: Json = False) -> None:
    """Show nodes, engines, models, what runs and what waits. Exit status 3 if no daemon runs.

    Examples: `pairproxy status`, `pairproxy status --json`.
    """
    from pairproxy.api.client import get_status

    found = get_status(home_or_default(home))
    if as_json:
        import msgspec

        typer.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
        return
    out = console()
    rows = ([plain(cell) for cell in row] for node in found.nodes for row in _rows(node))
    show_table(out, TITLES, rows, LEFT)
    out.print(_summary(found), markup=False)


def _rows(node: "NodeStatus") -> list[tuple[str, ...]]:
    found_by = FOUND_BY.get(node.found_by or "", node.found_by or "")
    state = "this machine" if node.is_self else found_by if node.is_up else "down"
    rows: list[tuple[str, ...]] = []
    for engine in node.engines:
        for replica in engine.replicas:
            rows.append(
                (
                    "" if rows else node.name,
                    engine.kind,
                    replica.model,
                    f"{engine.in_flight}/{engine.slots}" if engine.is_up else "down",
                    f"{replica.prefill_tokens_per_s:.0f} tok/s",
                    f"{replica.decode_tokens_per_s:.0f} tok/s",
                    "" if rows else state,
                )
            )
    return rows or [(node.name, "-", "-", "-", "-", "-", state)]


def _summary(found: "Status") -> str:
    ended = ", ".join(f"{count} {outcome}" for outcome, count in sorted(found.outcomes.items()))
    lines = [
        f"{len(found.running)} running, {found.queue_length} waiting, {sum(found.outcomes.values())} ended"
        + (f" ({ended})" if ended else "")
    ]
    names = {node.node: node.name for node in found.nodes}
    for one in found.running[:MOST_RUNNING]:
        where = plain(names.get(one.node or "", (one.node or "")[:8]))
        lines.append(f"running: {plain(one.request)[:8]} {plain(one.model)} on {where} for {one.age_s:.1f} s")
    if len(found.running) > MOST_RUNNING:
        lines.append(f"and {len(found.running) - MOST_RUNNING} more; `pairproxy status --json` has them all")
    lines += _nodes_to_know_of(found.nodes)
    run = found.last_run
    if run is not None and run.speedup is not None:
        lines.append(
            f"last run: {counted(run.requests, 'request')} in {run.makespan_s:.1f} s, "
            f"speedup {run.speedup:.2f} (waves bound {run.bound_waves:.2f}); see `pairproxy report`"
        )
    lines += [
        f"models differ on {plain(node.name)}: {', '.join(map(plain, node.models_differ))} (same name, other "
        "content, so never mixed; pull it anew on one of the two, or map it with engines.aliases)"
        for node in found.nodes
        if node.models_differ
    ]
    if found.unpaired:
        lines.append(f"seen, not paired: {_strangers(found.unpaired)}")
    if found.loop_lag_s > LATE_S:
        lines.append(
            f"pairproxy was held up for {found.loop_lag_s:.1f} s within the last minute; its log says by what"
        )
    if found.discovery_problem:
        lines.append(f"discovery: {found.discovery_problem}")
    return "\n".join(lines)


def _nodes_to_know_of(nodes: "tuple[NodeStatus, ...]") -> list[str]:
    slower = [
        f"{plain(node.name)}: {plain(engine.engine)} is slower than usual, so it is given "
        f"{counted(engine.foreign, 'slot')} less until it is not; something else may use that machine"
        for node in nodes
        for engine in node.engines
        if engine.foreign
    ]
    down = [
        f"{plain(node.name)} is down: {plain(node.problem)}"
        for node in nodes
        if node.problem and not (node.is_up or node.is_self)
    ]
    return slower + down


def _strangers(unpaired: dict[str, str]) -> str:
    seen = [
        plain(f"{short[:4]}-{short[4:]}" + (f" ({where})" if "update" in where else ""))  # else an address
        for short, where in sorted(unpaired.items())
    ]
    return ", ".join(seen[:MOST_SEEN]) + (
        f" and {len(seen) - MOST_SEEN} more" if len(seen) > MOST_SEEN else ""
    )
