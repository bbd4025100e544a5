from pairproxy.core.advice.memory import Memory


def test_two_tiers_are_a_card_of_its_own_or_memory_without_processors() -> None:
    """Two sockets are none, and neither is what processor and GPU share."""
    assert not Memory(numa_nodes=2).has_two_tiers
    assert not Memory(cards=1, is_unified=True).has_two_tiers
    assert Memory(cards=1).has_two_tiers
    assert Memory(memory_nodes=1).has_two_tiers
