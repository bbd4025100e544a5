"""The selection policies side by side, and the table of their names.

A policy is a function of frozen candidates. It answers with the place to use and the reason; choosing a
place that is not free means the request stays queued until the plan comes to it. All compare seconds,
except the count-based ones, which exist so that they can be compared on the user's own work.
"""

from collections.abc import Callable, Sequence

from pairproxy.core.models import Candidate

Policy = Callable[[Sequence[Candidate], int], tuple[Candidate, str]]
"""(candidates, how many decisions came before) -> (pick, reason). Candidates are never empty."""


def fastest_finish(candidates: Sequence[Candidate], turn: int) -> tuple[Candidate, str]:
    """The least busy node, with busy measured in seconds until this request would be done.

    Done even if the reply is long: a slow node that got one would hold up all that was asked with it, and
    then one node alone would have been faster.
    """
    homes = _homes(candidates, turn)
    best = min(homes, key=lambda candidate: candidate.finish_s + candidate.margin_s + candidate.affinity_s)
    if len(homes) < len(candidates):
        return best, f"its chain goes on here, this step until {best.finish_s:.2f} s from now"
    return best, f"finishes first, in {best.finish_s:.2f} s"


def least_busy(candidates: Sequence[Candidate], turn: int) -> tuple[Candidate, str]:
    """Fewest in flight per slot, ties in turn: what every router of this field ships."""
    turned = _rotated(candidates, turn)  # before the busy ones are left out: each place keeps its turn
    free = [candidate for candidate in turned if candidate.is_free] or turned
    best = min(free, key=lambda candidate: candidate.in_flight / candidate.slots)
    return best, f"{best.in_flight} of {best.slots} slots in use"


def local_only(candidates: Sequence[Candidate], turn: int) -> tuple[Candidate, str]:
    """This machine and no other; the scheduler hands over local candidates only."""
    return fastest_finish(candidates, turn)[0], "this machine only"


def _homes(candidates: Sequence[Candidate], turn: int) -> Sequence[Candidate]:
    """Those at which the request's chain is done soonest; all of them where it is in no chain, or in any."""
    least_s = min(candidate.chain_s for candidate in candidates)
    return [one for one in _rotated(candidates, turn) if one.chain_s <= least_s]


def _rotated(candidates: Sequence[Candidate], turn: int) -> Sequence[Candidate]:
    """The same candidates starting at another one, so that ties do not always fall to the first."""
    start = turn % len(candidates)
    return [*candidates[start:], *candidates[:start]]


POLICIES: dict[str, Policy] = {
    "fastest-finish": fastest_finish,
    "least-busy": least_busy,
    "local-only": local_only,
}
