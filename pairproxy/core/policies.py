"""The selection policies side by side, and the table of their names.

A policy is a function of frozen candidates. It answers with the place to use and the reason; choosing a
place that is not free means the request stays queued until the plan comes to it. The default compares
seconds; those that count are what other routers ship, and exist so that they can be compared on the user's
own work. They have our queue all the same: they choose among free places, and wait where there is none.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from random import Random
from typing import Final

from pairproxy.core.models import BLOCK_TOKENS, Candidate, NodeId, Place, Request
from pairproxy.core.rules import CONCURRENCY_THRESHOLD, PREFIX_LENGTH

CHARACTERS_A_TOKEN = 4  # as the blocks of Request.prefix are cut: 256 bytes are about 64 tokens
BLOCK_CHARACTERS = BLOCK_TOKENS * CHARACTERS_A_TOKEN
NEVER_USED: Mapping[Place, int] = {}


@dataclass(slots=True, unsafe_hash=True, init=False)
class Asked:
    """What a policy may look at beside the candidates.

    ``turn`` is how many decisions came before, ``used`` at which of them each place was picked last.
    ``prefix_length`` is in characters, ``concurrency_threshold`` in requests in flight at one node.
    """

    request: Final[Request]
    random: Final[Random]
    turn: Final[int]
    used: Final[Mapping[Place, int]]
    prefix_length: Final[int]
    concurrency_threshold: Final[int]

    def __init__(
        self,
        request: Request,
        random: Random,
        turn: int = 0,
        used: Mapping[Place, int] = NEVER_USED,
        prefix_length: int = PREFIX_LENGTH,
        concurrency_threshold: int = CONCURRENCY_THRESHOLD,
    ) -> None:
        self.request, self.random, self.turn = request, random, turn
        self.used, self.prefix_length = used, prefix_length
        self.concurrency_threshold = concurrency_threshold


Policy = Callable[[Sequence[Candidate], Asked], tuple[Candidate, str]]
"""(candidates, what was asked) -> (pick, reason). Candidates are never empty."""


def fastest_finish(candidates: Sequence[Candidate], asked: Asked) -> tuple[Candidate, str]:
    """The least busy node, with busy measured in seconds until this request would be done.

    Done even if the reply is long: a slow node that got one would hold up all that was asked with it, and
    then one node alone would have been faster.
    """
    if len(candidates) == 1:
        return candidates[0], _finishes_first(candidates[0])
    least_s = min([one.chain_s for one in candidates])
    best, best_s, left_out = None, math.inf, 0
    for one in _rotated(candidates, asked.turn):
        if one.chain_s > least_s:
            left_out += 1  # its chain would be done later
            continue
        price_s = one.finish_s + one.margin_s + one.affinity_s + one.delay_s
        if best is None or price_s < best_s:
            best, best_s = one, price_s
    best = best or candidates[0]
    if left_out:
        return best, f"its chain goes on here, this step until {best.finish_s:.2f} s from now"
    return best, _finishes_first(best)


def _finishes_first(best: Candidate) -> str:
    # Compiled, an f-string takes twice as long.
    return "finishes first, in " + format(best.finish_s, ".2f") + " s"


def least_busy(candidates: Sequence[Candidate], asked: Asked) -> tuple[Candidate, str]:
    """Fewest in flight per slot, ties in turn: what every router of this field ships."""
    best = min(_free(candidates, asked.turn), key=_business)
    return best, _in_use(best)


def prefix_aware(candidates: Sequence[Candidate], asked: Asked) -> tuple[Candidate, str]:
    """The node to which the start of the prompt is hashed; at its threshold, the one with most free slots.

    Cloud services route so. The hash is rendezvous hashing: a node that comes or goes moves its own prompts
    only. A prompt that is shorter than a block (256 bytes) has nothing to be hashed.
    """
    key = _key(asked)
    if key:
        node = max({one.place.node for one in candidates}, key=lambda one: _rank(one, key))
        homes = [one for one in candidates if one.place.node == node]
        in_flight = sum(one.in_flight for one in homes)
        if in_flight < asked.concurrency_threshold:
            best = min(_free(homes, asked.turn), key=_business)
            return best, f"its first {asked.prefix_length} characters go here; {_in_use(best)}"
    best = max(_free(candidates, asked.turn), key=lambda candidate: candidate.slots - candidate.in_flight)
    return best, f"most free slots; {_in_use(best)}"


def power_of_two(candidates: Sequence[Candidate], asked: Asked) -> tuple[Candidate, str]:
    """Of two that are drawn, the one with fewer in flight per slot."""
    free = _free(candidates, asked.turn)
    best = min(asked.random.sample(free, min(2, len(free))), key=_business)
    return best, f"of two that were drawn; {_in_use(best)}"


def round_robin(candidates: Sequence[Candidate], asked: Asked) -> tuple[Candidate, str]:
    """One after the other: the one that was not used for longest."""
    free = _free(candidates, asked.turn)
    return min(free, key=lambda candidate: asked.used.get(candidate.place, -1)), "its turn"


def at_random(candidates: Sequence[Candidate], asked: Asked) -> tuple[Candidate, str]:
    """Any."""
    return asked.random.choice(_free(candidates, asked.turn)), "drawn"


def local_only(candidates: Sequence[Candidate], asked: Asked) -> tuple[Candidate, str]:
    """This machine and no other; the scheduler hands over local candidates only."""
    return fastest_finish(candidates, asked)[0], "this machine only"


def _free(candidates: Sequence[Candidate], turn: int) -> Sequence[Candidate]:
    """The free ones, else all.

    They are turned before the busy ones are left out: so each place keeps its turn.
    """
    turned = _rotated(candidates, turn)
    return [candidate for candidate in turned if candidate.is_free] or turned


def _rotated(candidates: Sequence[Candidate], turn: int) -> Sequence[Candidate]:
    """The same candidates starting at another one, so that ties do not always fall to the first."""
    start = turn % len(candidates)
    return [*candidates[start:], *candidates[:start]]


def _business(candidate: Candidate) -> float:
    return candidate.in_flight / candidate.slots


def _in_use(candidate: Candidate) -> str:
    return f"{candidate.in_flight} of {candidate.slots} slots in use"


def _key(asked: Asked) -> bytes:
    """What stands for the first characters of a prompt; nothing for a prompt without a whole block.

    The hash of a block stands for all before it, too.
    """
    prefix = asked.request.prefix
    if not prefix:
        return b""
    block = prefix[min(max(asked.prefix_length // BLOCK_CHARACTERS, 1), len(prefix)) - 1]
    return f"{asked.request.model}\n{block}".encode()


def _rank(node: NodeId, key: bytes) -> bytes:
    """How much a node is the home of a key: the same at every origin, in every life."""
    return blake2b(key, digest_size=8, key=node.encode()[:64]).digest()


POLICIES: dict[str, Policy] = {
    "fastest-finish": fastest_finish,
    "least-busy": least_busy,
    "prefix-aware": prefix_aware,
    "power-of-two": power_of_two,
    "round-robin": round_robin,
    "random": at_random,
    "local-only": local_only,
}

BY_FINISH = frozenset({"fastest-finish", "local-only"})
"""Those that pick the smallest sum of seconds: of what is no smaller nothing else need be known."""
