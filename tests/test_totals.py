from dataclasses import replace
from itertools import pairwise

from pairproxy.core.accounting.records import RequestRecord
from pairproxy.core.errors import QueueFull
from pairproxy.core.models import ModelName, NodeId, Outcome
from pairproxy.totals import (
    BUCKETS,
    LAST_PROMPTS,
    MOST_MODELS,
    MOST_NODES,
    MOST_SERIES,
    OTHER,
    Histogram,
    Totals,
    label,
)
from tests.core.accounting.conversation import A, B, Told, refuse, served

HERE_A, HERE_B = "a-", "b-"


def totals_of(*records: RequestRecord) -> Totals:
    """What is counted of these."""
    totals = Totals()
    for record in records:
        totals.hear(record)
    return totals


def test_requests_are_counted_by_how_and_where_they_ended() -> None:
    """By model, node of the last attempt, outcome, and whether a client of this node or a peer asked."""
    totals = totals_of(
        served("1", 0.0, 0.0, 1.0, A),
        served("2", 0.0, 0.0, 1.0, A),
        served("3", 0.0, 0.0, 1.0, B, outcome=Outcome.ERROR),
        served("4", 0.0, 0.0, 1.0, A, origin=B),
    )
    assert totals.requests == {
        ("m", HERE_A, "done", "here"): 2,
        ("m", HERE_B, "error", "here"): 1,
        ("m", HERE_A, "done", "peer"): 1,
    }


def test_a_refusal_says_why_and_ran_nowhere() -> None:
    """The reason is the word of the error's class, as `pairproxy explain` says it."""
    told = Told()
    told.arrived(0.0, "r", refuse("r", QueueFull("256 requests are waiting already.")))
    totals = totals_of(told.only)
    assert totals.refusals == {("QueueFull",): 1}
    assert totals.requests == {("m", "none", "refused", "here"): 1}


def test_seconds_are_those_of_own_clients() -> None:
    """Arrival to end, to first byte, to dispatch; a peer's request is in that peer's own histograms."""
    totals = totals_of(served("1", 0.0, 2.0, 7.0, A), served("2", 0.0, 0.0, 50.0, A, origin=B))
    assert (totals.request_s.sum_s, sum(totals.request_s.counts)) == (7.0, 1)
    assert (totals.queue_s.sum_s, sum(totals.queue_s.counts)) == (2.0, 1)


def test_a_bucket_holds_its_own_edge() -> None:
    """As the format wants it: le is less or equal. What takes longer than all is in the last one."""
    histogram = Histogram()
    for seconds in (BUCKETS[0], BUCKETS[0] + 1e-9, BUCKETS[-1], BUCKETS[-1] + 1.0):
        histogram.add(seconds)
    assert (histogram.counts[0], histogram.counts[1]) == (1, 1)
    assert (histogram.counts[-2], histogram.counts[-1]) == (1, 1)
    assert all(low < high for low, high in pairwise(BUCKETS))


def test_tokens_count_where_engines_told_them() -> None:
    """Prompt tokens include cached ones; an engine that tells nothing adds nothing."""
    totals = totals_of(
        served("1", 0.0, 0.0, 1.0, A, tokens=30, prompt=100, cached=60),
        served("2", 0.0, 0.0, 1.0, B, tokens=None, prompt=0),
    )
    assert totals.tokens == {
        (HERE_A, "prompt", "here"): 100,
        (HERE_A, "cached", "here"): 60,
        (HERE_A, "output", "here"): 30,
    }


def test_the_hit_ratio_follows_the_last_prompts() -> None:
    """Old ones are let go of; a node whose engines tell nothing of their caches has none."""
    totals = totals_of(served("0", 0.0, 0.0, 1.0, B, prompt=100))
    for number in range(LAST_PROMPTS):
        totals.hear(served(f"a{number}", 0.0, 0.0, 1.0, A, prompt=100, cached=0))
    assert dict(totals.hit_ratios()) == {HERE_A: 0.0}
    for number in range(LAST_PROMPTS):
        totals.hear(served(f"b{number}", 0.0, 0.0, 1.0, A, prompt=100, cached=75))
    assert dict(totals.hit_ratios()) == {HERE_A: 0.75}


def test_a_ratio_is_never_above_one() -> None:
    """An engine may say that its cache held more than the prompt has."""
    totals = totals_of(served("0", 0.0, 0.0, 1.0, A, prompt=100, cached=150))
    assert dict(totals.hit_ratios()) == {HERE_A: 1.0}


def test_labels_are_bounded() -> None:
    """Models and nodes beyond the bounds are counted together, and none is lost."""
    totals = Totals()
    count = MOST_MODELS + 10
    for number in range(count):
        totals.hear(replace(served("m", 0.0, 0.0, 1.0, A), model=ModelName(f"model-{number}")))
        totals.hear(served("n", 0.0, 0.0, 1.0, NodeId(f"{number:03}node")))
    assert sum(totals.requests.values()) == 2 * count
    assert len({model for model, *_ in totals.requests}) == MOST_MODELS + 1
    assert len({node for _, node, *_ in totals.requests}) == MOST_NODES + 1
    assert OTHER in {model for model, *_ in totals.requests}


def test_series_are_bounded_however_labels_meet() -> None:
    """Each model at each node would be thousands; what is new beyond the bound is counted together."""
    totals = Totals()
    for model in range(MOST_MODELS):
        for node in range(MOST_NODES):
            record = served("r", 0.0, 0.0, 1.0, NodeId(f"{node:03}node"))
            totals.hear(replace(record, model=ModelName(f"model-{model}")))
    assert sum(totals.requests.values()) == MOST_MODELS * MOST_NODES
    assert len(totals.requests) == MOST_SERIES + 1
    assert totals.requests[OTHER, OTHER, "done", "here"] == MOST_MODELS * MOST_NODES - MOST_SERIES


def test_a_label_can_be_shown() -> None:
    """Control characters and halves of characters would spoil the page."""
    assert label("a\nb\x1b[0m\ud800ü") == "a?b?[0m?ü"
