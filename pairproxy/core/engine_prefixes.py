"""The prefix index of each engine of this node: all that goes to an engine passes by here."""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from pairproxy.core.documents import EngineReport, PrefixNews
from pairproxy.core.models import BLOCK_TOKENS, EngineId, ModelName, Usage
from pairproxy.core.prefix_news import MOST_CONFIDENCE, Publication
from pairproxy.core.prefixes import BlockCache, Prefix, PromptCache, Size, cache_of, matched, size_of

MOST_MODELS: Final = 32  # of one engine, for which an index is kept; few have more than three loaded
LEARNING_WEIGHT: Final = 0.2  # of one reply in the confidence, as in the rates (costs)
MIN_PREDICTED_TOKENS = 256  # of a match; of fewer, the last block that is not counted is too large a part
UNCERTAIN: Final = 0.02  # confidence is never nothing, or a prefix would have no way to prove itself


@dataclass(slots=True)
class _Engine:
    report: EngineReport
    publication: Publication = field(default_factory=Publication)
    caches: OrderedDict[ModelName, BlockCache | PromptCache] = field(default_factory=OrderedDict)
    confidence: float = 1.0


class EnginePrefixes:
    """What each engine's cache holds, how far that was true lately, and what peers are told of it."""

    def __init__(self) -> None:
        self._engines: dict[EngineId, _Engine] = {}

    def report(self, report: EngineReport) -> None:
        """Take in what probing an engine told: a new version, and a model not loaded, hold nothing."""
        known = self._engines.setdefault(report.engine, _Engine(report))
        before, known.report = known.report, report
        is_another = (before.kind, before.version) != (report.kind, report.version)
        loaded = {replica for replica, is_loaded in report.replicas if is_loaded}
        listed = {replica.model for replica, _ in report.replicas}
        same = loaded.intersection(replica for replica, is_loaded in before.replicas if is_loaded)
        stay = {replica.model for replica in same}
        for model in list(known.caches):
            if is_another or (model in listed and model not in stay):
                self._void(known, model)
            else:
                known.caches[model].size = _size(report, model)
        if is_another:
            known.confidence = 1.0

    def lose(self, engine: EngineId) -> None:
        """An engine does not answer: when it does again, it has started anew."""
        known = self._engines.get(engine)
        if known is not None:
            for model in list(known.caches):
                self._void(known, model)

    def insert(self, engine: EngineId, model: ModelName, prefix: Prefix) -> None:
        """An engine has read a prompt."""
        known = self._engines.get(engine)
        if known is None or not prefix:
            return
        cache = self._cache(known, model)
        kept = prefix[: cache.size.blocks]
        if kept:
            parted_at = matched(kept, cache.held)
            known.publication.insert(model, kept, parted_at, cache.insert(kept))

    def matched(self, engine: EngineId, model: ModelName, prefix: Prefix) -> int:
        """How many blocks of a prompt an engine holds."""
        known = self._engines.get(engine)
        cache = known.caches.get(model) if known is not None else None
        return 0 if cache is None else matched(prefix, cache.held)

    def confidence(self, engine: EngineId) -> float:
        """Tokens that came from the cache for each that was predicted, lately; 1.0 where nothing was told."""
        known = self._engines.get(engine)
        return 1.0 if known is None else known.confidence

    def learn(self, engine: EngineId, blocks: int, prompt_tokens: int, usage: Usage) -> None:
        """Compare a reply with the ``blocks`` that were held of its prompt of about ``prompt_tokens``.

        Parts of the prompt are compared, so that it does not matter how many characters make a token.
        """
        known = self._engines.get(engine)
        if known is None or usage.cached_tokens is None or not usage.prompt_tokens:
            return
        if blocks * BLOCK_TOKENS < MIN_PREDICTED_TOKENS:
            return
        predicted = min(blocks * BLOCK_TOKENS / prompt_tokens, 1.0)
        measured = min(usage.cached_tokens / usage.prompt_tokens, 1.0)
        ratio = min(measured / predicted, MOST_CONFIDENCE)
        known.confidence = max(known.confidence + LEARNING_WEIGHT * (ratio - known.confidence), UNCERTAIN)

    def news(self, engine: EngineId, since: int | None) -> PrefixNews | None:
        """What a reader with version ``since`` (None: none) of an engine's index must hear; None: nothing."""
        known = self._engines.get(engine)
        return None if known is None else known.publication.news(since)

    def _cache(self, known: _Engine, model: ModelName) -> BlockCache | PromptCache:
        cache = known.caches.get(model)
        if cache is None:
            cache = known.caches[model] = cache_of(known.report.kind, _size(known.report, model))
        known.caches.move_to_end(model)
        if len(known.caches) > MOST_MODELS:
            self._void(known, next(iter(known.caches)))
        return cache

    def _void(self, known: _Engine, model: ModelName) -> None:
        known.publication.drop(model, known.caches.pop(model).held)


def _size(report: EngineReport, model: ModelName) -> Size:
    windows = [replica.context_tokens for replica, _ in report.replicas if replica.model == model]
    return size_of(report.kind, max(report.slots, 1), windows[0] if windows else None, report.cache_tokens)
