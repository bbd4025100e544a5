"""Which node holds which model, as the JSON of api.models. A function of values: any thread may call it."""

from collections import defaultdict
from collections.abc import Sequence

from pairproxy.admin.differences import Row, notes
from pairproxy.admin.holdings import Held, Known, holdings, is_named
from pairproxy.api.models import CellState, ModelCell, ModelMatrix, ModelRow
from pairproxy.core.holders import Holder, main_replica
from pairproxy.core.models import ModelName, NodeId, Replica
from pairproxy.core.replicas import is_same, matches

MOST_MODELS = 1000  # in one document; large collections have a few hundred
MOST_CELLS = 20_000  # the same; about 300 bytes each, and commands take 16 MB
_WORST_FIRST: tuple[CellState, ...] = ("missing", "away", "unknown", "different", "same")


def lay_out(known: Known) -> ModelMatrix:
    """The matrix. Where there are too many models, those that the fewest nodes hold are left out."""
    held: dict[ModelName, list[Held]] = defaultdict(list)
    for node in known.nodes:
        for one in holdings(node):
            held[one.replica.model].append(one)
    own = known.nodes[0].node

    def rank(model: ModelName) -> tuple[bool, int, str]:
        nodes = {one.place.node for one in held[model]}
        return own not in nodes, -len(nodes), model

    shown = sorted(sorted(held, key=rank)[: min(MOST_MODELS, MOST_CELLS // len(known.nodes))])
    return ModelMatrix(
        node=own,
        nodes=tuple(node.node for node in known.nodes),
        names={node.node: node.name for node in known.nodes},
        models=tuple(_row(model, held[model], known) for model in shown),
        away=tuple(node.node for node in known.nodes if not node.is_up),
        left_out=len(held) - len(shown),
    )


def _row(model: ModelName, held: Sequence[Held], known: Known) -> ModelRow:
    own = known.nodes[0].node
    main = _main(held, own)
    best: dict[NodeId, tuple[CellState, Held]] = {}
    for one in held:
        state, other = _state(one, main), best.get(one.place.node)
        if other is None or _quality(state, one) > _quality(*other):
            best[one.place.node] = state, one
    cells = tuple(
        _cell(*best[node.node])
        if node.node in best
        else ModelCell(node.node, "missing" if node.is_up else "away")
        for node in known.nodes
    )
    is_local_only = matches(model, known.local_only)
    serving = tuple(
        node.node
        for node, cell in zip(known.nodes, cells, strict=True)
        if cell.state == "same" and not node.is_draining and (node.node == own or not is_local_only)
    )
    row = Row(
        model=model,
        nodes={node.node: node for node in known.nodes},
        held={node: one for node, (_, one) in best.items()},
        states={cell.node: cell.state for cell in cells},
        serving=serving,
        is_local_only=is_local_only,
        barred=tuple(node for node in known.nodes[1:] if not known.may_use(node.node, model)),
    )
    found = notes(row)
    return ModelRow(model, len(serving), cells, found.differences, found.costs, found.fix)


def _main(held: Sequence[Held], own: NodeId) -> Replica | None:
    """The content that a request of this node gets; that of an engine that is away, if there is no other."""
    there: list[Holder] = [
        (one.place, one.engine, one.state)
        for one in held
        if one.is_up and one.engine is not None and one.state is not None
    ]
    here = [one for one in there if one[0].node == own]
    found = main_replica(here, [one for one in there if one[0].node != own], exactly=False)
    return found or next((one.replica for one in held), None)


def _state(one: Held, main: Replica | None) -> CellState:
    if not one.is_up:
        return "away"
    if main is not None and is_same(main, one.replica):
        return "same"
    return "different" if main is not None and is_named(one.replica) and is_named(main) else "unknown"


def _quality(state: CellState, one: Held) -> tuple[int, bool, int]:
    """Of a node's engines the one with the most stands for it."""
    return _WORST_FIRST.index(state), one.is_loaded, one.slots


def _cell(state: CellState, one: Held) -> ModelCell:
    rates = one.state.rates if one.state is not None else None
    return ModelCell(
        node=one.place.node,
        state=state,
        engine=one.place.engine,
        identity=one.replica.identity,
        is_loaded=one.is_loaded,
        context_tokens=one.replica.context_tokens,
        slots=one.slots,
        prefill_tokens_per_s=rates.prefill if rates is not None else None,
        decode_tokens_per_s=rates.decode if rates is not None else None,
        kind=one.kind,
        quantization=one.quantization,
    )
