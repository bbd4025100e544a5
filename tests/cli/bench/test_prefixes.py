import asyncio

import pytest

from pairproxy.cli.bench.prefixes import OUTPUT_TOKENS, PREFIXES, REQUESTS, prefix_table, workload
from pairproxy.core.models import NodeId
from tests.support.embedded import model_cache


def test_each_prefix_is_asked_for_as_often() -> None:
    """Eight short replies over two long prefixes, in an order of the seed's."""
    made = [workload(NodeId("A"), seed).requests for seed in range(3)]
    for requests in made:
        kinds = [request.blocks for request in requests]
        assert sorted(map(kinds.count, set(kinds))) == [REQUESTS // PREFIXES] * PREFIXES
        assert {request.output_tokens for request in requests} == {OUTPUT_TOKENS}
    assert len(set(made)) > 1


@pytest.mark.slow
def test_hits_are_the_engines_own() -> None:
    """One round on real engines: prompts of about 1,500 tokens, and llama.cpp found parts of them cached."""
    model_cache()
    rows, _ = asyncio.run(prefix_table(1, lambda line: None, lambda done, total: None))
    found = {row.experiment: row.value for row in rows}
    assert 0 < found["fastest-finish: hits"] < 1
    assert 0 < found["fastest-finish: cached of a prompt"] < 2100
    assert found["least-busy: TTFT p50"] > 0
