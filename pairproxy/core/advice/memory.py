"""What memory a machine has to keep weights in."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Memory:
    """In how many pieces it lies, and whether a faster one stands beside it. Zero bytes: not known."""

    total_bytes: int = 0
    numa_nodes: int = 1  # with processors of their own
    memory_nodes: int = 0  # with memory only: a tier of its own (CXL, HBM)
    is_unified: bool = False  # processor and GPU share it: there is nothing to offload to
    cards: int = 0  # with memory of their own
    card_bytes: int = 0  # of these cards, where their driver tells it

    @property
    def has_two_tiers(self) -> bool:
        """Whether a model can be split between a fast and a slow memory at all."""
        return self.memory_nodes > 0 or (self.cards > 0 and not self.is_unified)
