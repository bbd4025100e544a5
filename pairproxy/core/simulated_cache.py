"""The prefix cache of a simulated engine: blocks of what was read and written, least recently used first out.

Blocks are chained hashes, as Request.prefix has them: one stands for everything before it too. What a running
request uses is held and never thrown out; what nobody holds is kept as long as there is room, as llama-server
and vLLM do it.
"""

from collections import OrderedDict
from collections.abc import Sequence

from pairproxy.core.models import BLOCK_TOKENS, AttemptId


class SimulatedCache:
    """At most ``capacity_tokens`` in blocks of BLOCK_TOKENS; more only while running requests hold more."""

    def __init__(self, capacity_tokens: int) -> None:
        self._capacity_blocks = capacity_tokens // BLOCK_TOKENS
        self._holders: dict[int, int] = {}  # block -> running requests that use it
        self._free: OrderedDict[int, None] = OrderedDict()  # the least recently used first
        self._held: dict[AttemptId, list[int]] = {}

    @property
    def tokens(self) -> int:
        """What is in it now."""
        return (len(self._holders) + len(self._free)) * BLOCK_TOKENS

    def hold(self, attempt: AttemptId, blocks: Sequence[int]) -> int:
        """Use the longest run of ``blocks`` from the first on that is there; returns its tokens."""
        found = 0
        while found < len(blocks) and (blocks[found] in self._free or blocks[found] in self._holders):
            found += 1
        self.keep(attempt, blocks[:found])
        return found * BLOCK_TOKENS

    def keep(self, attempt: AttemptId, blocks: Sequence[int]) -> None:
        """Let a running request hold these blocks too: they were read or written now, or are used."""
        held = self._held.setdefault(attempt, [])
        for block in blocks[len(held) :]:
            self._free.pop(block, None)
            self._holders[block] = self._holders.get(block, 0) + 1
            held.append(block)
        self._make_room()

    def release(self, attempt: AttemptId) -> None:
        """The request is over. Its last blocks are the first to go: the start is what others share."""
        for block in reversed(self._held.pop(attempt, [])):
            self._holders[block] -= 1
            if not self._holders[block]:
                del self._holders[block]
                self._free[block] = None
        self._make_room()

    def _make_room(self) -> None:
        while self._free and len(self._holders) + len(self._free) > self._capacity_blocks:
            self._free.popitem(last=False)
