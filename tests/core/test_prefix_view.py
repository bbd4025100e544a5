from dataclasses import replace

from pairproxy.core.costs import Costs
from pairproxy.core.documents import PrefixNews, StateDocument
from pairproxy.core.local import LocalEngines
from pairproxy.core.models import BLOCK_TOKENS, AttemptId, NodeId, Place, RequestId, Usage
from pairproxy.core.nodes import NodeTable
from pairproxy.core.prefix_news import mark_of
from pairproxy.core.prefix_view import PrefixView
from pairproxy.core.running import Running, RunningTable
from tests.core.told import FAST, GPU, A, B, M, ask, at, document, report

PROMPT = tuple(range(100, 120))
ASKED = ask("r", prompt=20 * BLOCK_TOKENS + 30, prefix=PROMPT)


class Seen:
    """What node A sees."""

    def __init__(self) -> None:
        self.local, self.nodes, self.running = LocalEngines(A, Costs()), NodeTable(), RunningTable()
        self.local.report(report())
        self.view = PrefixView(A, self.local, self.nodes, self.running)

    def cached(self, place: Place) -> int:
        """Tokens of ASKED that a place holds."""
        return self.view.cached_tokens(ASKED, place)


def telling(node: NodeId, *held: int, confidence: float = 1.0) -> StateDocument:
    """A document that tells of these blocks."""
    plain = document(node)
    news = PrefixNews(2, 0, tuple(one ^ mark_of(M) for one in held))
    return replace(plain, engines=(replace(plain.engines[0], prefixes=news, cache_confidence=confidence),))


def test_every_place_is_known_by_its_own_index() -> None:
    """This node's to the block, a peer's as it was told, each with the confidence that it earned."""
    seen = Seen()
    assert seen.cached(at(A)) == seen.cached(at(B)) == 0
    seen.local.prefixes.insert(GPU, M, PROMPT[:11])
    seen.nodes.report(telling(B, PROMPT[7], PROMPT[15], confidence=0.5), 0.0)
    assert seen.cached(at(A)) == 11 * BLOCK_TOKENS
    assert seen.cached(at(B)) == 16 * BLOCK_TOKENS // 2
    for _ in range(60):
        seen.local.prefixes.learn(GPU, 10, 1000, Usage(prompt_tokens=1000, cached_tokens=320))
    assert abs(seen.cached(at(A)) - 11 * BLOCK_TOKENS // 2) <= 1


def test_what_is_under_way_to_a_place_counts() -> None:
    """Wherever it is, until the attempt ends; but not for what would start beside it."""
    seen = Seen()
    for node in (A, B):
        attempt = AttemptId(RequestId("other"), 1 if node == A else 2)
        seen.running.add(Running(attempt, replace(ASKED, prefix=PROMPT[:5]), at(node), FAST, 0.0, 1.0))
        assert seen.cached(at(node)) == 5 * BLOCK_TOKENS
        assert seen.view.cached_tokens(ASKED, at(node), 0.1) == 5 * BLOCK_TOKENS
        assert seen.view.cached_tokens(ASKED, at(node), 0.0) == 0
        seen.running.remove(attempt)
        assert seen.cached(at(node)) == 0


def test_the_last_token_is_always_read() -> None:
    """However sure the index is; a prompt without a full block is in none."""
    seen = Seen()
    seen.local.prefixes.insert(GPU, M, PROMPT)
    assert seen.view.cached_tokens(replace(ASKED, prompt_tokens=640), at(A)) == 639
    assert seen.view.cached_tokens(replace(ASKED, prompt_tokens=0), at(A)) == 0
    assert seen.view.cached_tokens(replace(ASKED, prefix=()), at(A)) == 0
