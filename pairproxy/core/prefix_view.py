"""How much of a prompt each place holds, as far as this node knows."""

import math

from pairproxy.core.local import LocalEngines
from pairproxy.core.models import BLOCK_TOKENS, NodeId, Place, Request
from pairproxy.core.nodes import NodeTable
from pairproxy.core.running import RunningTable


class PrefixView:
    """Reads this node's indexes, what peers told of theirs, and what is under way from here."""

    def __init__(self, own: NodeId, local: LocalEngines, nodes: NodeTable, running: RunningTable) -> None:
        self._own = own
        self._local = local
        self._nodes = nodes
        self._running = running

    def cached_tokens(self, request: Request, place: Place, wait_s: float = math.inf) -> int:
        """Tokens of the prompt that need not be read there if it starts after ``wait_s`` seconds.

        What is being read there now counts only for a request that has to wait: it will be there then; two
        that are read side by side are both read. Never all of a prompt counts: its last token is always read.
        """
        if not request.prefix:
            return 0
        if place.node == self._own:
            held = self._local.prefixes.matched(place.engine, request.model, request.prefix)
            confidence = self._local.prefixes.confidence(place.engine)
        else:
            held, confidence = self._nodes.prefixes.matched(place, request.model, request.prefix)
        if wait_s > 0.0:
            held = max(held, self._running.pending.matched(place, request.model, request.prefix))
        if not held:
            return 0
        tokens = held * BLOCK_TOKENS * confidence
        return max(0, min(int(tokens), request.prompt_tokens - 1))
