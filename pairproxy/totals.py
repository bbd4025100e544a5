"""What is counted of each request that ended, while the daemon runs. Plain numbers: each costs little."""

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from pairproxy.core.accounting.records import RequestRecord
from pairproxy.core.models import NodeId, Outcome, Usage
from pairproxy.security.identity import short_id

# Seconds. From a cached answer of a small model to where the clients themselves give up (600 s); each about
# twice the one before: what an LLM takes differs by factors, and a quantile is read to within one of them.
BUCKETS: Final = (
    0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 60.0, 120.0, 300.0, 600.0,
)  # fmt: skip
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


@dataclass(slots=True)
class Histogram:
    """How many took how long: a count for each of BUCKETS, and one for what took longer."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    sum_s: float = 0.0

    def add(self, seconds: float) -> None:
        """One that took so long."""
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.sum_s += seconds


class Totals:
    """Everything since the daemon started, by the values of the labels."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, str, str]] = Counter()  # model, node, outcome, origin
        self.tokens: Counter[tuple[str, str, str]] = Counter()  # node, kind, origin
        self.refusals: Counter[tuple[str]] = Counter()  # the class of the error
        self.request_s, self.ttft_s, self.queue_s = Histogram(), Histogram(), Histogram()
        self._models: dict[str, str] = {}  # a name -> its label
        self._nodes: dict[NodeId, str] = {}
        self._prompts: dict[
            str, deque[tuple[int, int]]
        ] = {}  # a node -> (cached, all) tokens of its last ones

    def hear(self, record: RequestRecord) -> None:
        """A request ended."""
        origin = HERE if record.origin is None else PEER
        final, word = record.final, _WORDS[record.outcome]
        node = NOWHERE if final is None else self._node(final.place.node)
        key = (self._model(record.model), node, word, origin)
        if len(self.requests) >= MOST_SERIES and key not in self.requests:
            key = (OTHER, OTHER, word, origin)
        self.requests[key] += 1
        if record.outcome is _REFUSED:
            self.refusals[record.error.partition(":")[0],] += 1
        self._count_tokens(record.usage, node, origin)
        if origin is HERE:
            self.request_s.add(record.latency_s)
            self.queue_s.add(record.queue_s)
            if (ttft_s := record.ttft_s) is not None:
                self.ttft_s.add(ttft_s)

    def hit_ratios(self) -> Iterator[tuple[str, float]]:
        """Each node whose engines tell of their caches, and the part of its last prompts that they held."""
        for node, prompts in self._prompts.items():
            read = sum(count for _, count in prompts)
            if read:
                yield node, sum(cached for cached, _ in prompts) / read

    def _count_tokens(self, usage: Usage, node: str, origin: str) -> None:
        prompt, cached, output = usage.prompt_tokens, usage.cached_tokens, usage.output_tokens
        for kind, count in (("prompt", prompt), ("cached", cached), ("output", output)):
            if count:
                self.tokens[node, kind, origin] += count
        if prompt and cached is not None:
            if (last := self._prompts.get(node)) is None:
                last = self._prompts[node] = deque(maxlen=LAST_PROMPTS)
            last.append((min(cached, prompt), prompt))

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
