"""What a node tells of its prefix indexes, and what its readers keep of that.

Not every block is told: each eighth, where a prompt ended, and where two prompts parted. A reader rounds down
to what it was told. First the whole, then what changed since the version that a reader has.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b

from pairproxy.core.documents import EngineState, PrefixNews, StateDocument
from pairproxy.core.models import EngineId, ModelName, NodeId, Place
from pairproxy.core.prefixes import Prefix

STEP_BLOCKS = 8  # 512 tokens: what a match is rounded down by at most, a second of reading for a slow machine
MOST_TOLD = 4096  # hashes of one engine: 80 KB of JSON, two million tokens at this step
MOST_AT_ONCE = 8192  # hashes in one document: 170 KB of the megabyte that it may have
WHOLE_EVERY_S = 30.0  # for a reader that missed something, and does not know what
MOST_CHANGES = 512  # that are remembered, and
MOST_CHANGED = (
    2 * MOST_TOLD
)  # hashes in them, half a megabyte; a reader that is further behind hears the whole
MOST_CONFIDENCE = 1.25  # an engine also keeps its replies, which are not in its index
_HASH_BITS = 64


@lru_cache(maxsize=256)
def mark_of(model: ModelName) -> int:
    """What tells the hashes of one model from those of another: an engine may hold a prompt for both."""
    return int.from_bytes(blake2b(model.encode(), digest_size=8).digest(), "big")


def told_positions(prefix: Prefix, parted_at: int) -> list[int]:
    """The blocks of a prompt that are told, last first; it parted from what was held after ``parted_at``."""
    length = len(prefix)
    marked = {length, parted_at} - {0}
    return sorted(marked.union(range(STEP_BLOCKS, length + 1, STEP_BLOCKS)), reverse=True)


class Publication:
    """The told part of one engine's index, its version, and the latest changes."""

    def __init__(self) -> None:
        self.version = 1
        self._told: OrderedDict[int, None] = OrderedDict()
        self._changes: deque[tuple[int, tuple[int, ...], tuple[int, ...]]] = deque()
        self._changed = 0  # hashes in them

    def insert(self, model: ModelName, prefix: Prefix, parted_at: int, gone: Iterable[int]) -> None:
        """An engine keeps a prompt, of which it had ``parted_at`` blocks, and lost what is ``gone``."""
        if not prefix:
            return
        mark = mark_of(model)
        added, removed = [], self._drop(one ^ mark for one in gone)
        for position in told_positions(prefix, parted_at):
            one = prefix[position - 1] ^ mark
            if one not in self._told:
                added.append(one)
            self._told[one] = None
            self._told.move_to_end(one)
        removed += [self._told.popitem(last=False)[0] for _ in range(len(self._told) - MOST_TOLD)]
        self._change(added, removed)

    def drop(self, model: ModelName, gone: Iterable[int]) -> None:
        """An engine lost these."""
        mark = mark_of(model)
        self._change([], self._drop(one ^ mark for one in gone))

    def news(self, since: int | None) -> PrefixNews | None:
        """What a reader that has version ``since`` (None: none) must hear; None: nothing."""
        if since == self.version:
            return None
        if since is None or not self._changes or not self._changes[0][0] <= since + 1 <= self.version:
            return self._whole()
        state: dict[int, bool] = {}
        for change in range(since - self.version, 0):  # each change is one version
            _, added, removed = self._changes[change]
            state.update(dict.fromkeys(added, True))
            state.update(dict.fromkeys(removed, False))
        if len(state) >= len(self._told):
            return self._whole()
        here = tuple(one for one, is_here in state.items() if is_here)
        gone = tuple(one for one, is_here in state.items() if not is_here)
        return PrefixNews(self.version, since, here, gone)

    def _whole(self) -> PrefixNews:
        return PrefixNews(self.version, 0, tuple(self._told))

    def _drop(self, gone: Iterable[int]) -> list[int]:
        told = self._told
        removed = [one for one in gone if one in told]
        for one in removed:
            del told[one]
        return removed

    def _change(self, added: list[int], removed: list[int]) -> None:
        if added or removed:
            self.version += 1
            self._changes.append((self.version, tuple(added), tuple(removed)))
            self._changed += len(added) + len(removed)
        while len(self._changes) > MOST_CHANGES or self._changed > MOST_CHANGED:
            _, added_then, removed_then = self._changes.popleft()
            self._changed -= len(added_then) + len(removed_then)


class Heard:
    """What a peer told of one engine."""

    def __init__(self) -> None:
        self._version = 0
        self._held: set[int] = set()

    def take_in(self, news: PrefixNews) -> None:
        """Apply what is new. News for another version, or of more than may be told: all is forgotten.

        Versions only grow while a daemon lives: what comes late, or twice, is known already.
        """
        if news.version <= self._version:
            return
        is_whole = news.since == 0
        if not is_whole and news.since != self._version:
            self._forget()
            return
        held = set() if is_whole else self._held
        if len(news.added) > MOST_TOLD or any(one >> _HASH_BITS for one in news.added):
            self._forget()
            return
        held.difference_update(news.removed)
        held.update(news.added)
        if len(held) > MOST_TOLD:
            self._forget()
            return
        self._version, self._held = news.version, held

    def matched(self, model: ModelName, prefix: Prefix) -> int:
        """How many blocks of a prompt are surely held: up to the last that was told."""
        if not self._held or not prefix:
            return 0
        held, mark = self._held, mark_of(model)
        low, high = 0, len(prefix) // STEP_BLOCKS
        while low < high:
            middle = (low + high + 1) // 2
            if prefix[middle * STEP_BLOCKS - 1] ^ mark in held:
                low = middle
            else:
                high = middle - 1
        first = low * STEP_BLOCKS
        for position in range(min(first + STEP_BLOCKS - 1, len(prefix)), first, -1):
            if prefix[position - 1] ^ mark in held:
                return position
        return first

    def _forget(self) -> None:
        self._version, self._held = 0, set()


class ToldTo:
    """Which versions the reader of one stream of documents has."""

    def __init__(self) -> None:
        self._versions: dict[EngineId, int] = {}
        self._whole_at: float | None = None

    def versions(self, at: float) -> Mapping[EngineId, int]:
        """What it has, for the document that is written now; nothing when the whole is due again."""
        if self._whole_at is None or at >= self._whole_at:
            self._whole_at = at + WHOLE_EVERY_S
            self._versions.clear()
        return self._versions

    def took(self, document: StateDocument) -> None:
        """This one was sent to it."""
        for engine in document.engines:
            if engine.prefixes is not None:
                self._versions[engine.engine] = engine.prefixes.version


def bounded(engines: Iterable[EngineState]) -> tuple[EngineState, ...]:
    """The engines of one document with no more news than MOST_AT_ONCE; the rest is told in the next one."""
    room, states = MOST_AT_ONCE, []
    for state in engines:
        size = 0 if state.prefixes is None else len(state.prefixes.added) + len(state.prefixes.removed)
        states.append(state if size <= room else replace(state, prefixes=None))
        room -= size if size <= room else 0
    return tuple(states)


class HeardFrom:
    """What all peers told of their engines, by place."""

    def __init__(self) -> None:
        self._heard: dict[Place, tuple[Heard, float]] = {}

    def take_in(self, document: StateDocument, *, is_new_life: bool) -> None:
        """Take in a document, whose engines are as many as one node may have.

        A new life of its daemon, or an engine that is not in it: what was known is void.
        """
        there = {Place(document.node, engine.engine) for engine in document.engines}
        for place in [place for place in self._heard if place.node == document.node]:
            if is_new_life or place not in there:
                del self._heard[place]
        for engine in document.engines:
            place = Place(document.node, engine.engine)
            heard, _ = self._heard.get(place, (Heard(), 1.0))
            if engine.prefixes is not None:
                heard.take_in(engine.prefixes)
            self._heard[place] = heard, min(max(engine.cache_confidence, 0.0), MOST_CONFIDENCE)

    def take_in_late(self, document: StateDocument) -> None:
        """Take in the news of a document that a later one has overtaken: they are told only once."""
        for engine in document.engines:
            known = self._heard.get(Place(document.node, engine.engine))
            if known is not None and engine.prefixes is not None:
                known[0].take_in(engine.prefixes)

    def lose(self, node: NodeId) -> None:
        """Forget what a node told."""
        for place in [place for place in self._heard if place.node == node]:
            del self._heard[place]

    def matched(self, place: Place, model: ModelName, prefix: Prefix) -> tuple[int, float]:
        """(blocks of a prompt that a place surely holds, how far its index was true lately)."""
        known = self._heard.get(place)
        return (0, 1.0) if known is None else (known[0].matched(model, prefix), known[1])
