import json

import pytest

from tests.support.command import here, pairproxy


@pytest.mark.slow
def test_json_is_one_document_and_nothing_else() -> None:
    """Machines read it as it is: each policy, the bounds, exit status 0."""
    done = pairproxy(
        "bench", "--requests", "4", "--rounds", "1", "--fast-forward", "100", "--policies", "least-busy",
        "--node", "a=1:2000:100", "--node", "b=1:2000:100", "--json",
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert [one["policy"] for one in document["policies"]] == ["least-busy"]
    assert [node["name"] for node in document["nodes"]] == ["a", "b"]


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("--workload", "bursts"), "published"),
        (("--policies", "fastest"), "fastest-finish"),
        (("--policies", ","), "least-busy"),
        (("--origins", "4"), "3 nodes"),
        (("--node", "same=1:1:1", "--node", "same=2:1:1"), "one name"),
        (("--rounds", "0"), "1"),
        (("--workload", "published", "--origins", "2"), "published is asked at one node"),
        (("--workload", "one-chain", "--requests", "2"), "chains takes a number"),
        (("--here", "--workload", "chains"), "not with --here"),
        (("--model", "m"), "only with --here"),
        (("--run", "nightly"), "only with --levers"),
        (("--levers", "--seed", "3"), "not with --levers"),
        (("--levers", "--yes"), "only with --here"),
        (("--levers", "--here", "--requests", "3"), "not with --levers"),
        (tuple(word for n in range(9) for word in ("--node", f"n{n}=1:1:1")), "8 nodes at most"),
    ],
)
def test_wrong_usage_is_said_before_anything_starts(arguments: tuple[str, ...], names: str) -> None:
    """Exit status 2, with what would be right."""
    done = here("bench", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert names in done.stderr
