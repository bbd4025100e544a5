import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairproxy.core.accounting.runs import group_runs
from pairproxy.core.models import ModelName, Outcome, Rates
from pairproxy.core.whatif.recording import (
    RecordedRequest,
    Recording,
    blocks_of,
    record,
    reply_blocks_of,
)
from tests.core.accounting.conversation import A, B, at, served

PLACES = {at(node): (2, {ModelName("m"): Rates(100.0, 10.0, 0.15, 3.0)}) for node in (A, B)}


def recorded(*facts: tuple[str, float, tuple[int, ...]]) -> Recording:
    """A run of requests that ran for three seconds each, with these blocks, and one that was left."""
    records = [
        served(
            name, start, start, start + 3, prefix=blocks, prompt=64 * len(blocks) + 1, tokens=130, run="job"
        )
        for name, start, blocks in facts
    ]
    records.append(served("left", 0, 0, 1, run="job", outcome=Outcome.CANCELLED))
    (run,) = group_runs(records)
    return record(run, A, "fastest-finish", PLACES, {at(A): "ollama"}, {at(A): 640}, {A: "anna", "x": "old"})


def test_it_holds_what_a_replay_needs() -> None:
    """Sizes, times, what follows what, and the nodes with their speeds and caches."""
    recording = recorded(("a", 0, (11, 12)), ("b", 5, (11, 12, 13, 14, 15)))
    first, second = recording.requests
    assert (first.arrived_s, first.service_s, first.prompt_tokens, first.output_tokens) == (0, 3, 129, 130)
    assert (second.after, second.think_s) == (0, 2.0)
    assert (second.blocks, second.shared_blocks, second.shared_with) == (5, 2, 0)
    assert (recording.makespan_s, recording.left_out, recording.names) == (8.0, 1, {A: "anna"})
    here, there = recording.places
    assert (here.kind, here.slots, here.cache_tokens, there.cache_tokens) == ("ollama", 2, 640, 0)
    assert here.rates["m"].load_s == 3.0


def test_it_holds_no_hash() -> None:
    """Somebody who has the file cannot find out whether a text that he guesses was asked."""
    secret = 0x1234_5678_9ABC_DEF0
    recording = recorded(("a", 0, (secret,)))
    assert str(secret) not in msgspec.json.encode(recording).decode()


def test_it_is_json() -> None:
    """It comes back as it was."""
    recording = recorded(("a", 0, (1,)), ("b", 5, (1, 2)))
    assert msgspec.json.decode(msgspec.json.encode(recording), type=Recording) == recording


def test_the_reply_completes_the_blocks_that_the_next_prompt_goes_on_with() -> None:
    """As many as its tokens can fill."""
    requests = recorded(("a", 0, (11, 12)), ("b", 5, (11, 12, 13, 14, 15))).requests
    blocks = blocks_of(requests)
    assert reply_blocks_of(requests, blocks) == [blocks[1][2:4], ()]


def test_nonsense_is_refused() -> None:
    """A beginning that is shared with a request to come."""
    with pytest.raises(ValueError, match="does not come before it"):
        blocks_of((RecordedRequest("m", 0, 1, A, 10, 10, blocks=2, shared_blocks=1, shared_with=0),))


@given(st.lists(st.lists(st.integers(0, 2), max_size=5), min_size=1, max_size=8))
def test_beginnings_come_back_as_they_were_shared(paths: list[list[int]]) -> None:
    """For every two prompts, as many blocks are equal as were equal before."""
    chained = [tuple(hash(tuple(path[: end + 1])) for end in range(len(path))) for path in paths]
    recording = recorded(*((f"r{index}", 0.0, blocks) for index, blocks in enumerate(chained)))
    again = blocks_of(recording.requests)

    def common(one: tuple[int, ...], other: tuple[int, ...]) -> int:
        return next((at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]),
                    min(len(one), len(other)))  # fmt: skip

    for one in range(len(paths)):
        for other in range(len(paths)):
            assert common(again[one], again[other]) == common(chained[one], chained[other])
