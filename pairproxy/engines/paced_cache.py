"""A prefix cache as engines have it, over the text of prompts: whole blocks, longest common start, LRU."""

import hashlib
import math
from collections import OrderedDict
from collections.abc import Iterator

CHARS_PER_TOKEN = 4  # the usual rule for English text
BLOCK_TOKENS = 16  # as vLLM has it; what is cached is a whole number of blocks
_BLOCK_CHARS = BLOCK_TOKENS * CHARS_PER_TOKEN


def count_tokens(text: str) -> int:
    """How many tokens the paced engine takes ``text`` for; at least one."""
    return max(1, math.ceil(len(text) / CHARS_PER_TOKEN))


class PrefixCache:
    """Remembers at most ``capacity_tokens`` of what was read; the least recently used goes first."""

    def __init__(self, capacity_tokens: int) -> None:
        self._capacity_blocks = capacity_tokens // BLOCK_TOKENS
        self._blocks: OrderedDict[bytes, None] = OrderedDict()

    def match(self, text: str) -> int:
        """How many tokens at the start of ``text`` are cached; never all of it, as the last must be read."""
        found = 0
        for name in _block_names(text):
            if name not in self._blocks:
                break
            found += BLOCK_TOKENS
        return min(found, count_tokens(text) - 1)

    def add(self, text: str) -> None:
        """Remember ``text``. The start of it becomes the most recently used: it is what others share."""
        names = list(_block_names(text))[: self._capacity_blocks]
        for name in reversed(names):
            self._blocks[name] = None
            self._blocks.move_to_end(name)
        while len(self._blocks) > self._capacity_blocks:
            self._blocks.popitem(last=False)


def _block_names(text: str) -> Iterator[bytes]:
    """A name for each whole block that also stands for everything before it."""
    name = b""
    for end in range(_BLOCK_CHARS, len(text) + 1, _BLOCK_CHARS):
        block = text[end - _BLOCK_CHARS : end].encode("utf-8", "surrogatepass")
        name = hashlib.blake2b(name + block, digest_size=16).digest()
        yield name
