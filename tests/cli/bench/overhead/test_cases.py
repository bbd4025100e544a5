import json

from pairproxy.cli.bench.overhead.cases import CASES, ENDLESS_TOKENS, TOKENS, Case


def by_name(name: str) -> Case:
    """One of them."""
    return next(case for case in CASES if case.name == name)


def test_bodies_are_as_large_as_their_names_say() -> None:
    """A body of 5 MB has 5 MB and is JSON that asks for the model."""
    body = by_name("5MB").body("m")
    assert 5_000_000 <= len(body) < 5_001_000
    assert json.loads(body)["model"] == "m"
    assert 40_000 <= len(by_name("40kB").body("m")) < 41_000


def test_streams_bring_a_hundred_tokens() -> None:
    """And what nobody reads has no end; a document is one."""
    assert (by_name("paced-512").tokens, by_name("json-1").tokens) == (TOKENS, 1)
    assert by_name("stalled").tokens == ENDLESS_TOKENS
    assert json.loads(by_name("flat-64").body("m"))["stream"] is True


def test_names_are_unique() -> None:
    """--only tells them apart."""
    assert len({case.name for case in CASES}) == len(CASES)
