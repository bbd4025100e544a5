from pathlib import Path

import pytest

from pairproxy.core.models import NodeId
from pairproxy.core.workloads.chains import played
from pairproxy.core.workloads.traces import agent_chains, at_rate, azure, dynamo_chains, mooncake

A, B = NodeId("a"), NodeId("b")
SESSION = (
    '{"id":"t","tool":600,"sys":40,"bs":64,"reqs":[[0.0,1000,50,0,7.3,0],'
    '{"t":5.0,"kind":"Explore","status":"completed","tool":500,"sys":12,"reqs":'
    "[[0.0,1280,64,0,2.8,0],[6.0,1600,70,19,4.3,3.0],[9.0,900,70,4,4.3,1.0]]},"
    "[19.0,1500,296,15,9.2,12.0]]}"
)


def test_a_sub_agent_is_a_chain() -> None:
    """With its tool time, and what a later prompt no longer shares with the one before."""
    (chain,) = agent_chains([SESSION, ""])
    assert [(step.prompt_tokens, step.output_tokens, step.think_s) for step in chain.steps] == [
        (1280, 64, 0.0), (1600, 70, 3.0), (900, 70, 1.0),
    ]  # fmt: skip
    assert [step.shared_tokens for step in chain.steps] == [None, None, 256]
    assert chain.common_tokens == 512


def test_a_short_session_of_a_main_agent_is_one_too_if_asked_for() -> None:
    """If it had no sub-agents; hours in which its person was away are cut."""
    step = "[{}, {}, 50, {}, 7.3, {}]"
    steps = [step.format(9 * index, 1000 + 64 * index, 15 + index, 4000.0) for index in range(5)]
    alone = '{"id":"t","tool":600,"sys":40,"bs":64,"reqs":[' + ",".join(steps) + "]}"
    sub, main = agent_chains([SESSION, alone], sub_agents_only=False)
    assert [step.think_s for step in main.steps] == [0.0, 30.0, 30.0, 30.0, 30.0]
    assert (main.start != sub.start, main.common_tokens) == (True, 640)
    assert len(agent_chains([SESSION, alone])) == 1
    assert agent_chains([alone.replace("1000", "99000")], sub_agents_only=False) == []


def test_a_run_of_an_agent_is_a_chain_for_each_of_its_sessions() -> None:
    """Tool time is what passed between a reply's end and the next request."""
    line = '{{"t": {}, "session": "{}", "in": {}, "out": 8, "total_ms": 2000.0, "hash_ids": {}, "block": 16}}'
    rows = [
        line.format(0.0, "root", 60, [0, 1, 2, 3]),
        line.format(1.0, "sub", 30, [7, 8]),
        line.format(5.0, "root", 90, [0, 1, 2, 3, 4, 5]),
        line.format(9.0, "root", 90, [0, 9, 2, 3, 4, 5]),
    ]
    root, sub = dynamo_chains(rows)
    assert [(step.think_s, step.shared_tokens) for step in root.steps] == [
        (0.0, None),
        (3.0, None),
        (2.0, 16),
    ]
    assert len(sub.steps) == 1


def test_a_trace_of_a_service_is_arrivals_with_their_blocks() -> None:
    """Its larger blocks are cut into ours; the last one is not full."""
    rows = [
        '{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]}',
        '{"timestamp": 1500, "input_length": 700, "output_length": 0, "hash_ids": [0, 2]}',
        '{"timestamp": 9000, "input_length": 700, "output_length": 9, "hash_ids": [0, 2]}',
    ]
    first, second = mooncake(rows, [A, B], 2)
    assert (first.at, second.at, first.origin, second.origin) == (0.0, 1.5, A, B)
    assert (len(first.blocks), len(second.blocks), second.output_tokens) == (9, 10, 1)
    assert first.blocks[:8] == second.blocks[:8]
    assert first.blocks[8] != second.blocks[8]


def test_a_table_of_arrivals_counts_from_the_first() -> None:
    """Lengths are all that it knows."""
    rows = [
        "TIMESTAMP,ContextTokens,GeneratedTokens",
        "2023-11-16 18:17:03.9799600,4808,10",
        "2023-11-16 18:17:05.2299600,3180,8",
    ]
    requests = azure(rows, [A], 5)
    assert [one.at for one in requests] == pytest.approx([0.0, 1.25])
    assert [(one.prompt_tokens, one.output_tokens, one.blocks) for one in requests] == [
        (4808, 10, ()), (3180, 8, ()),
    ]  # fmt: skip
    assert at_rate(requests, 4.0) == pytest.approx(0.4)


@pytest.mark.parametrize(
    "read",
    [
        lambda: agent_chains(["", "[1]"]),
        lambda: mooncake(["", "{"], [A], 5),
        lambda: azure(["TIMESTAMP,ContextTokens,GeneratedTokens", "yesterday,1,1"], [A], 5),
    ],
)
def test_what_is_not_of_the_trace_is_said_with_its_line(read: object) -> None:
    """So that a wrong file is found at once."""
    assert callable(read)
    with pytest.raises(ValueError, match="line 2 is not of the trace"):
        read()


def test_the_recorded_sessions_are_read_if_they_are_there() -> None:
    """The public traces are no part of the project; where they lie beside it, all of them can be played."""
    traces = Path(__file__).parents[3].parent / "shared" / "data" / "traces"
    if not traces.is_dir():
        pytest.skip("the public traces are not beside the project")
    chains = agent_chains((traces / "agent_sessions.jsonl").read_text().splitlines())
    assert len(chains) > 20
    assert all(one.prompt_tokens // 64 == len(one.blocks) for one in played(chains, [A]))
    assert len(dynamo_chains((traces / "dynamo_pi_agent_run.jsonl").read_text().splitlines())) == 4
    lines = (traces / "mooncake_conversation_head.jsonl").read_text().splitlines()
    assert len(mooncake(lines, [A], 100)) == 100
    assert len(azure((traces / "azure2023_code_head.csv").read_text().splitlines(), [A], 100)) == 100
