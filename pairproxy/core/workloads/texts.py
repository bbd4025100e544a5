"""Prompts as chained blocks, without any text: two prompts have in common what their first blocks are."""

from collections.abc import Sequence
from itertools import count

from pairproxy.core.models import BLOCK_TOKENS

_SCATTER = 0x9E3779B97F4A7C15  # 2**64 / golden ratio: makes numbers look like hashes, one to one as it is odd
_MASK = (1 << 64) - 1
_STREAM_BITS = 24  # blocks of one common start: a thousand million tokens


def start_blocks(start: int, tokens: int) -> list[int]:
    """The full blocks of the first ``tokens`` of the common start of that number, 1 and up."""
    return [_scatter((start << _STREAM_BITS) + index) for index in range(tokens // BLOCK_TOKENS)]


class Texts:
    """Hands out blocks that no other prompt has; ``number`` keeps two writers apart (0 ... 2**15)."""

    def __init__(self, number: int = 0) -> None:
        self._numbers = count((1 << 63) + (number << 40))

    def fresh(self, blocks: int) -> list[int]:
        """So many new blocks."""
        return [_scatter(next(self._numbers)) for _ in range(max(blocks, 0))]

    def grown(self, text: Sequence[int], tokens: int) -> list[int]:
        """The text as far as ``tokens`` go, and where it is shorter, new blocks after it."""
        blocks = tokens // BLOCK_TOKENS
        return [*text[:blocks], *self.fresh(blocks - len(text))]


def _scatter(number: int) -> int:
    return number * _SCATTER & _MASK
