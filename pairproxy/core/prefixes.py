"""What the prefix caches of engines hold, as far as it can be known from what went through them.

A prompt is known by the chained hashes of its blocks (Request.prefix): a hash that is held stands for its
block and all before it. Both caches below keep that true: what is held of a prompt is always its beginning.
"""

from collections import Counter, OrderedDict
from collections.abc import Container
from dataclasses import dataclass, field
from typing import Final

from pairproxy.core.models import BLOCK_TOKENS, ModelName, Place

Prefix = tuple[int, ...]

KEEPS_BLOCKS = frozenset({"openai", "paced"})
"""Kinds of engines that keep blocks, each once; the others keep whole prompts, one in each slot."""
TOKENS = {
    "openai": 131_072,  # vLLM: 16 GiB beside an 8B model in a GPU of 32 to 48 GB, at 128 KiB a token
    "llamacpp": 65_536,  # llama-server: its 8 GiB of RAM (--cache-ram), at 128 KiB a token of an 8B model
    "paced": 65_536,  # its own default
    "embedded": 45_056,  # 1 GiB of RAM: eleven prompts of 4096 tokens
}
"""Tokens that a kind of engine keeps beside its slots where it does not say; none for the others."""
PRIOR_CONTEXT_TOKENS: Final = 8192  # of a slot whose window is not known
MOST_BLOCKS: Final = 32_768  # of one model on one engine: two million tokens, 5 MB of memory here


@dataclass(frozen=True, slots=True)
class Size:
    """How much an engine keeps: blocks in all, and prompts (None: as many as have room)."""

    blocks: int
    prompts: int | None


def size_of(kind: str, slots: int, context_tokens: int | None, cache_tokens: int | None) -> Size:
    """The cache of an engine; ``cache_tokens`` where it tells them, else what is usual of its kind."""
    kept = TOKENS.get(kind) if cache_tokens is None else cache_tokens
    in_slots = slots * (context_tokens or PRIOR_CONTEXT_TOKENS)
    if kind in KEEPS_BLOCKS:
        return Size(min((kept or 0) // BLOCK_TOKENS, MOST_BLOCKS), None)
    tokens = in_slots if kept is None else in_slots + kept
    return Size(min(tokens // BLOCK_TOKENS, MOST_BLOCKS), slots if kept is None else None)


def matched(prefix: Prefix, held: Container[int]) -> int:
    """How many blocks of a prompt are held; those are its first ones, so a bisection finds the last."""
    if not prefix or prefix[0] not in held:
        return 0  # nearly every prompt at nearly every place
    low, high = 1, len(prefix)
    while low < high:
        middle = (low + high + 1) // 2
        if prefix[middle - 1] in held:
            low = middle
        else:
            high = middle - 1
    return low


@dataclass(slots=True)
class BlockCache:
    """Blocks, each kept once however many prompts begin with it; the least recently used goes first."""

    size: Size
    held: OrderedDict[int, None] = field(default_factory=OrderedDict)

    def insert(self, prefix: Prefix) -> list[int]:
        """Keep a prompt; returns what had to go. The first block is the newest: it is what others share."""
        held = self.held
        for one in reversed(prefix[: self.size.blocks]):
            held[one] = None
            held.move_to_end(one)
        return [held.popitem(last=False)[0] for _ in range(len(held) - self.size.blocks)]


@dataclass(slots=True)
class PromptCache:
    """Whole prompts, as slots and their copies in RAM hold them; one takes the place of what it continues."""

    size: Size
    held: Counter[int] = field(default_factory=Counter)
    prompts: OrderedDict[int, Prefix] = field(default_factory=OrderedDict)  # by the last hash of each
    blocks: int = 0

    def insert(self, prefix: Prefix) -> list[int]:
        """Keep a prompt; returns what had to go."""
        prefix = prefix[: self.size.blocks]
        if not prefix:
            return []
        inside = set(prefix)
        continued = [last for last in self.prompts if last in inside]
        gone: list[int] = []
        if continued == [prefix[-1]]:  # it is here, and continues no other
            self.prompts.move_to_end(prefix[-1])
        else:
            self.held.update(prefix)
            self.blocks += len(prefix)
            gone = [one for last in continued for one in self._drop(last)]
            self.prompts[prefix[-1]] = prefix
        most = len(self.prompts) if self.size.prompts is None else self.size.prompts
        while len(self.prompts) > most or self.blocks > self.size.blocks:
            gone += self._drop(next(iter(self.prompts)))
        return gone

    def _drop(self, last: int) -> list[int]:
        prefix = self.prompts.pop(last)
        self.blocks -= len(prefix)
        gone = []
        for one in prefix:
            self.held[one] -= 1
            if not self.held[one]:
                del self.held[one]
                gone.append(one)
        return gone


def cache_of(kind: str, size: Size) -> BlockCache | PromptCache:
    """An empty cache as an engine of this kind has it."""
    return BlockCache(size) if kind in KEEPS_BLOCKS else PromptCache(size)


def shared(one: Prefix, other: Prefix, least: int) -> int:
    """How many blocks two prompts begin with alike, of which the first ``least`` are known."""
    low, high = least, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[middle - 1] == other[middle - 1]:
            low = middle
        else:
            high = middle - 1
    return low


class Pending:
    """The prompts that are being read or answered now, by place: they will be there in a moment.

    Each is kept as it is: to count its blocks would take longer than to look through all that run at a place.
    """

    def __init__(self) -> None:
        # by the last hash of each, which stands for all of it; with how often it runs
        self._held: dict[tuple[Place, ModelName], dict[int, tuple[Prefix, int]]] = {}

    def add(self, place: Place, model: ModelName, prefix: Prefix) -> None:
        """A prompt was sent to a place."""
        if not prefix:
            return
        held = self._held.setdefault((place, model), {})
        known = held.get(prefix[-1])
        held[prefix[-1]] = prefix, 1 if known is None else known[1] + 1

    def remove(self, place: Place, model: ModelName, prefix: Prefix) -> None:
        """It is no longer under way there."""
        held = self._held.get((place, model)) if prefix else None
        known = None if held is None else held.pop(prefix[-1], None)
        if held is None or known is None:
            return
        if known[1] > 1:
            held[prefix[-1]] = known[0], known[1] - 1
        elif not held:
            del self._held[place, model]

    def matched(self, place: Place, model: ModelName, prefix: Prefix) -> int:
        """How many blocks of a prompt are under way there."""
        held = self._held.get((place, model)) if prefix else None
        if held is None:
            return 0
        size, most = len(prefix), 0
        for other, _ in held.values():  # one comparison each, but for those that begin with more of it
            if most < size and most < len(other) and other[most] == prefix[most]:
                most = shared(prefix, other, most + 1)
        return most
