from tests.core.advice.looking import burst, look, node


def test_evidence_counts_what_it_is_of() -> None:
    """Requests that ended well, and the slots of all nodes that could serve them."""
    evidence = look([node("a", 2), node("b", 3)], burst(4))
    assert (evidence.requests, evidence.slots) == (4, 5)
