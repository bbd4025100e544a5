from pairproxy.cli.demo.legs import Result


def test_both_legs_ran_the_same_requests_and_both_nodes_worked(result: Result) -> None:
    """Five requests in each leg; alone all on the first node, together each node served some."""
    found = result.comparison
    assert (found.requests, found.slots) == (5, 2)
    assert (len(found.makespans_alone_s), len(found.makespans_together_s)) == (1, 1)
    assert sum(tally.requests for tally in found.per_node.values()) == 5
    assert all(tally.requests for tally in found.per_node.values())
    assert [tally.output_tokens for tally in found.per_node.values()] == [
        8 * tally.requests for tally in found.per_node.values()
    ]


def test_the_nodes_were_found_by_mdns(result: Result) -> None:
    """The first node's view: itself and one that was announced."""
    assert result.discovered_by == "mdns"
    assert [node.name for node in result.nodes] == ["A", "B"]


def test_every_sub_agent_has_its_own_text(result: Result) -> None:
    """Answers in the order of the tasks, alternating between the two clients, no two the same."""
    assert [answer.client for answer in result.answers] == ["ollama", "openai", "ollama", "openai", "ollama"]
    assert len({answer.text for answer in result.answers}) == 5
    assert len({answer.request for answer in result.answers}) == 5


def test_the_makespan_holds_no_more_than_its_pieces(result: Result) -> None:
    """Alone, five pieces one after the other fill the makespan: nothing but the job is timed."""
    found = result.comparison
    assert sum(found.pieces_alone_s) <= found.makespan_alone_s + 0.05
    print(f"alone {found.makespan_alone_s:.2f} s, pieces {sum(found.pieces_alone_s):.2f} s")  # noqa: T201
