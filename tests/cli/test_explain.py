from pathlib import Path

import msgspec
import pytest

from pairproxy.api.schema import AttemptStory, Explanation
from pairproxy.cli.explain import head, outcome
from tests.support.command import here, sentence
from tests.support.daemons import Node


def test_without_a_daemon_it_says_so_and_exits_with_3(home: Path) -> None:
    """As status does."""
    done = here("explain", "--home", home)
    assert (done.returncode, sentence(done)) == (
        3,
        "No daemon is running here. Start one with `pairproxy up`.",
    )


def test_it_shows_the_candidates_and_what_came_of_it(live: list[Node]) -> None:
    """Both nodes with the terms of their price, the pick marked, the prediction beside the event."""
    request = live[0].report("nightly").records[0].request
    done = here("explain", request[:12], "--home", live[0].home)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{request}: paced:1b over ollama" in done.stdout
    assert "run nightly" in done.stdout
    assert "attempt 1: to " in done.stdout
    titles = next(line.split() for line in done.stdout.splitlines() if "prefill" in line)
    assert titles[:2] == ["node", "engine"]
    assert {"wait", "prefill", "decode", "finish", "cached"} <= {*titles}
    picked = [line for line in done.stdout.splitlines() if line.strip().startswith("->")]
    assert len(picked) == 1
    finish = titles.index("finish") + 1  # behind the mark
    words = picked[0].replace(" s", "").split()
    parts = sum(float(cell) for cell in words[3:finish])
    assert parts == pytest.approx(float(words[finish]), abs=0.03)
    assert "finish: the seconds before it added up" in done.stdout
    assert "first byte: predicted" in done.stdout
    assert "it ended: done" in done.stdout


def test_a_narrow_terminal_has_a_block_for_each_node(live: list[Node]) -> None:
    """The picked one is marked beside its name."""
    request = live[0].report("nightly").records[0].request
    done = here("explain", request, "--home", live[0].home, COLUMNS="40")
    blocks = [line for line in done.stdout.splitlines() if line.startswith("node: ")]
    assert len(blocks) == 2
    assert sorted(line.startswith("node: -> ") for line in blocks) == [False, True]
    assert not any(line.startswith("node:  ") for line in blocks)


def test_the_last_one_as_json(live: list[Node]) -> None:
    """--json is the schema's Explanation, and `last` is what is explained without an id."""
    done = here("explain", "--home", live[0].home, "--json")
    told = msgspec.json.decode(done.stdout, type=Explanation)
    assert told == msgspec.structs.replace(
        msgspec.json.decode(
            here("explain", "last", "--home", live[0].home, "--json").stdout, type=Explanation
        ),
        age_s=told.age_s,
    )
    assert told.outcome == "done"
    assert {one.node for one in told.attempts[0].candidates} <= told.names.keys()


def test_an_unknown_id_says_where_ids_are(live: list[Node]) -> None:
    """Odd ones come to the daemon as they are."""
    for odd in ("nope", "a/b?c", "../status"):
        done = here("explain", odd, "--home", live[0].home)
        assert done.returncode == 1
        assert "`pairproxy report` lists the requests" in sentence(done)


def test_an_attempt_that_was_taken_back_says_where_the_request_went() -> None:
    """By the name of the node, and that nobody failed."""
    ends = [(1, "a" * 52, "Moved", 9.0), (2, "b" * 52, "done", 12.0)]
    first, second = (
        AttemptStory(
            number, node, "gpu", "why", "fastest-finish", end, 0.0, None, ended_s, None, None, None, ()
        )
        for number, node, end, ended_s in ends
    )
    found = Explanation(
        "r1", "m:1", "ollama", "/api/chat", "done", "", 1.0, None, "", None, 0.0, 12.0, None, None, None,
        (first, second), {"b" * 52: "workstation"},
    )  # fmt: skip
    assert outcome(found, first)[-1] == "it ended: moved to workstation: taken back, to be done there sooner"
    assert outcome(found, second)[-1] == "it ended: done"


def test_a_reply_that_went_on_elsewhere_says_where_and_after_how_much() -> None:
    """The attempt whose node was lost names the next one; where there is none, nobody could go on."""
    ends = [(1, "a" * 52, "broken", 9.0), (2, "b" * 52, "done", 12.0)]
    first, second = (
        AttemptStory(
            number, node, "e", "r", None, end, 0.0, 1.0, at, None, None, None, (), delivered_tokens=30
        )
        for number, node, end, at in ends
    )
    found = Explanation(
        "r1", "m:1", "ollama", "/api/chat", "done", "", 1.0, None, "", None, 0.0, 12.0, None, None, None,
        (first, second), {"b" * 52: "workstation"}, continued=1,
    )  # fmt: skip
    lost = "it ended: its node was lost after 30 tokens; "
    assert outcome(found, first)[-1] == lost + "the rest was asked of workstation"
    alone = msgspec.structs.replace(found, attempts=(first,))
    assert outcome(alone, first)[-1] == lost + "nobody could go on"
    off = msgspec.structs.replace(first, end="truncated")
    assert outcome(alone, off)[-1].startswith("it ended: truncated: its node was lost or broke off")


def test_a_request_that_is_open_is_told_without_an_end() -> None:
    """It runs, or it waits: what is predicted stands beside how long it has taken, and nothing has ended."""
    runs = AttemptStory(1, "a" * 52, "gpu", "why", None, "running", 0.5, None, 3.0, 1.5, 9.5, None, ())
    found = Explanation(
        "r1", "m:1", "ollama", "/api/chat", "running", "", 0.0, None, "", None, 0.5, 3.0, None, None, None,
        (runs,), {},
    )  # fmt: skip
    assert head(found)[0] == "r1: m:1 over ollama /api/chat, it came 3.00 s ago and runs now"
    assert outcome(found, runs) == [
        "first byte: predicted 1.00 s, not yet after 2.50 s",
        "end: predicted 9.00 s, not yet after 2.50 s",
    ]
    begun = msgspec.structs.replace(runs, first_byte_s=1.25)
    assert outcome(found, begun)[0] == "first byte: predicted 1.00 s, came after 0.75 s"
    waits = msgspec.structs.replace(found, outcome="waiting", attempts=(), queue_s=3.0)
    assert head(waits)[0].endswith("it came 3.00 s ago and waits now")
    assert head(waits)[1] == "It was sent nowhere yet: it spent 3.00 s in the queue."
