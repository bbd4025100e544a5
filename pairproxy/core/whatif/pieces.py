"""A recorded run as pieces of work: the tokens that were really read and written, and what waits for what."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pairproxy.core.accounting.chains import follows, size, think_s, waits_for
from pairproxy.core.accounting.losses import load_s
from pairproxy.core.accounting.paces import cached_of
from pairproxy.core.accounting.records import AttemptRecord, RequestRecord
from pairproxy.core.accounting.runs import Run
from pairproxy.core.models import BLOCK_TOKENS, AttemptId, ModelName, Outcome, Place, Rates
from pairproxy.core.simulated_gpu import SimulatedGpu


@dataclass(frozen=True, slots=True)
class Piece:
    """One served request. ``after``: the index of the piece it follows, ``think_s`` after its end.

    With ``joins``, after the end of the last of these, too: those of sub-agents that it waited for.

    It was dispatched ``load_s`` before ``dispatched_at``, and waited for its model.

    ``read`` are the tokens that were read where it ran, ``unread`` those that had to be read unless the run
    itself had read them before: of these, ``blocks`` say which.
    """

    attempt: AttemptId
    model: ModelName
    read: int
    unread: int
    output: int
    arrived_at: float
    place: Place
    dispatched_at: float
    ended_at: float
    blocks: tuple[int, ...] = ()
    reply_blocks: tuple[int, ...] = ()
    after: int | None = None
    think_s: float = 0.0
    joins: tuple[int, ...] = ()
    load_s: float = 0.0

    def seconds(self, rates: Rates) -> float:
        """On an engine of its own."""
        return self.read / rates.prefill + self.output / rates.decode

    def start(self, gpu: SimulatedGpu, at: float, rates: Rates, *, uses_cache: bool = False) -> None:
        """Run it there, the model being loaded: loading is what a warm node would not do.

        ``uses_cache``: read what the cache of the engine does not hold, else what was read in the run.
        """
        warm = replace(rates, load_s=0.0)
        if uses_cache and self.blocks:
            gpu.start(
                at, self.attempt, self.model, warm, self.unread, self.output, self.blocks, self.reply_blocks
            )
        else:
            gpu.start(at, self.attempt, self.model, warm, self.read, self.output)


def pieces_of(run: Run) -> list[Piece]:
    """The served requests by arrival; none at all if one of them cannot be modelled."""
    done = [
        (record, record.final) for record in run.records if record.outcome is Outcome.DONE and record.final
    ]
    records = [record for record, _ in done]
    if any(not record.usage.prompt_tokens and not record.usage.output_tokens for record in records):
        return []
    waits = waits_for(records, follows(records))
    seen: set[int] = set()
    pieces = []
    for index, ((record, final), before) in enumerate(zip(done, waits, strict=True)):
        pieces.append(
            replace(
                _piece(record, final, seen),
                after=before[0] if before else None,
                think_s=think_s(records, index, before[-1]) if before else 0.0,
                joins=before[1:],
            )
        )
        seen.update(record.prefix)
    return _with_replies(pieces)


def _piece(record: RequestRecord, final: AttemptRecord, seen: set[int]) -> Piece:
    shared = next((at for at, block in enumerate(record.prefix) if block not in seen), len(record.prefix))
    loading_s = load_s(record, final)
    if final.first_byte_at is not None:
        loading_s = min(loading_s, final.first_byte_at - final.dispatched_at)
    found = max(cached_of(record) - shared * BLOCK_TOKENS, 0)  # in a cache from before the run
    return Piece(
        attempt=AttemptId(record.id, final.number),
        model=record.model,
        read=max(size(record) - cached_of(record), 0),
        unread=max(size(record) - found, 1),
        output=record.usage.output_tokens or 0,
        arrived_at=record.arrived_at,
        place=final.place,
        dispatched_at=final.dispatched_at + loading_s,
        ended_at=record.ended_at,
        blocks=record.prefix,
        load_s=loading_s,
    )


def _with_replies(pieces: Sequence[Piece]) -> list[Piece]:
    """Let each reply complete the blocks with which the prompt of the next step goes on."""
    done = list(pieces)
    for step in pieces:
        if step.after is not None:
            last = done[step.after]
            if step.blocks[: len(last.blocks)] != last.blocks:
                continue  # it is the first of a sub-agent, and has a prompt of its own
            new = step.blocks[len(last.blocks) :][: last.output // BLOCK_TOKENS]
            done[step.after] = replace(last, reply_blocks=new)
    return done
