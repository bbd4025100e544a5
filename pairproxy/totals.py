"""What is counted of each request that ended, while the daemon runs. Plain numbers: each costs little."""

from collections import Counter, deque
from collections.abc import Iterator
from typing import Final

from pairproxy.core.accounting.records import RequestRecord
from pairproxy.core.models import ModelName, NodeId, Outcome, Usage
from pairproxy.security.identity import short_id

# Seconds. From a cached answer of a small model to where the clients themselves give up (600 s); each about
# twice the one before: what an LLM takes differs by factors, and a quantile is read to within one of them.
_EDGES: Final = [
    0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 60.0, 120.0, 300.0, 600.0,
]  # fmt: skip
BUCKETS: Final = tuple(_EDGES)
MOST_MODELS: Final = 64  # labels; more than anybody serves, and each makes some series
MOST_NODES: Final = 64  # the same; those that were forgotten again are among them
MOST_SERIES: Final = 2048  # of requests: a scrape stays below 300 kB; what is new beyond is counted as OTHER
LAST_PROMPTS: Final = (
    256  # of each node, for its hit ratio: a few jobs of agents, so that it follows what is done now
)
OTHER: Final = "other"
"""A model or node beyond the bounds."""
NOWHERE: Final = "none"
"""The node of a request that never left the queue."""
HERE, PEER = "here", "peer"
"""Where a request came from: a client of this node, or a peer."""
_REFUSED: Final = Outcome.REFUSED
_WORDS: Final = {
    outcome: outcome.value for outcome in Outcome
}  # an enumeration's own ``value`` takes six times as long


def label(text: str) -> str:
    """A text as the value of a label: what cannot be shown is not."""
    return "".join(one if one.isprintable() else "?" for one in text)


class Histogram:
    """How many took how long: a count for each of BUCKETS, and one for what took longer."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)
        self.sum_s = 0.0

    def add(self, seconds: float) -> None:
        """One that took so long."""
        low, high = 0, len(_EDGES)
        while low < high:  # bisect_left, which takes ten times as long from where this is compiled
            middle = (low + high) >> 1
            if _EDGES[middle] < seconds:
                low = middle + 1
            else:
                high = middle
        self.counts[low] += 1
        self.sum_s += seconds


class _Tokens:
    """Of one node and origin. ``last``: (cached, all) of the node's last prompts."""

    __slots__ = ("cached", "last", "output", "prompt")

    def __init__(self, last: deque[tuple[int, int]]) -> None:
        self.prompt = self.cached = self.output = 0
        self.last = last

    def add(self, usage: Usage) -> None:
        """What one reply used."""
        prompt, cached, output = usage.prompt_tokens, usage.cached_tokens, usage.output_tokens
        if output is not None:
            self.output += output
        if prompt is not None:
            self.prompt += prompt
        if cached is not None:
            self.cached += cached
            if prompt:
                self.last.append((min(cached, prompt), prompt))


class _Series:
    """Requests whose labels are the same."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


_Asked = tuple[str, str | None, Outcome, bool]
"""A model and a node by their own names, how it ended, whether a client of this node asked."""


class Totals:
    """Everything since the daemon started, by the values of the labels."""

    def __init__(self) -> None:
        self.refusals: Counter[tuple[str]] = Counter()  # the class of the error
        self.request_s, self.ttft_s, self.queue_s = Histogram(), Histogram(), Histogram()
        self._series: dict[tuple[str, str, str, str], _Series] = {}
        self._tokens: dict[tuple[str, str], _Tokens] = {}  # of a node and an origin
        self._known: dict[_Asked, tuple[_Series, _Tokens]] = {}  # what a request counts for; MOST_SERIES
        self._models: dict[str, str] = {}  # a name -> its label
        self._nodes: dict[NodeId, str] = {}
        self._prompts: dict[str, deque[tuple[int, int]]] = {}  # of each node

    @property
    def requests(self) -> Counter[tuple[str, str, str, str]]:
        """How many there were, by model, node, outcome, origin."""
        return Counter({labels: series.count for labels, series in self._series.items()})

    @property
    def tokens(self) -> Counter[tuple[str, str, str]]:
        """How many there were, by node, kind, origin; where no engine told of any there is no count."""
        told: Counter[tuple[str, str, str]] = Counter()
        for (node, origin), one in self._tokens.items():
            for kind, count in (("prompt", one.prompt), ("cached", one.cached), ("output", one.output)):
                if count:
                    told[node, kind, origin] = count
        return told

    def hear(self, record: RequestRecord) -> None:
        """A request ended."""
        final, is_own = record.final, record.origin is None
        node = None if final is None else final.place.node
        asked = (record.model, node, record.outcome, is_own)
        known = self._known.get(asked)
        series, tokens = self._begun(record.model, node, record.outcome, is_own) if known is None else known
        series.count += 1
        tokens.add(record.usage)
        if record.outcome is _REFUSED:
            self.refusals[record.error.partition(":")[0],] += 1
        if is_own:
            self.request_s.add(record.latency_s)
            self.queue_s.add(record.queue_s)
            if (ttft_s := record.ttft_s) is not None:
                self.ttft_s.add(ttft_s)

    def hit_ratios(self) -> Iterator[tuple[str, float]]:
        """Each node whose engines tell of their caches, and the part of its last prompts that they held."""
        for node, prompts in self._prompts.items():
            read = sum([count for _, count in prompts])
            if read:
                yield node, sum([cached for cached, _ in prompts]) / read

    def _begun(
        self, model: ModelName, at: NodeId | None, outcome: Outcome, is_own: bool
    ) -> tuple[_Series, _Tokens]:
        """What a request counts for whose like there was not, or which is beyond the bounds."""
        origin, word = HERE if is_own else PEER, _WORDS[outcome]
        node = NOWHERE if at is None else self._node(at)
        labels = (self._model(model), node, word, origin)
        if len(self._series) >= MOST_SERIES and labels not in self._series:
            labels = (OTHER, OTHER, word, origin)
        last = self._prompts.setdefault(node, deque(maxlen=LAST_PROMPTS))
        begun = (
            self._series.setdefault(labels, _Series()),
            self._tokens.setdefault((node, origin), _Tokens(last)),
        )
        if len(self._known) < MOST_SERIES:
            self._known[model, at, outcome, is_own] = begun
        return begun

    def _model(self, name: str) -> str:
        known = self._models.get(name)
        if known is None:
            if len(self._models) >= MOST_MODELS:
                return OTHER
            known = self._models[name] = label(name) or "unknown"
        return known

    def _node(self, node: NodeId) -> str:
        known = self._nodes.get(node)
        if known is None:
            if len(self._nodes) >= MOST_NODES:
                return OTHER
            known = self._nodes[node] = short_id(node)
        return known
