"""T1: how long the same requests would have taken on one node alone, and whether to believe it."""

from dataclasses import dataclass
from typing import Literal

from pairproxy.core.models import NodeId

MOST_MODEL_ERROR = 0.25  # a speedup of 5/3 could not be told from none with a model that is off by more


@dataclass(frozen=True, slots=True)
class T1:
    """The makespan of a run's requests on one node alone, arrivals (or what they waited for) kept."""

    value_s: float
    kind: Literal["measured", "modelled"]  # replayed there, or simulated with learned speeds
    node: NodeId
    model_error: float | None = (
        None  # of a modelled one: sum |modelled - real| / sum real of each request's time
    )

    @property
    def is_credible(self) -> bool:
        """Whether it was measured, or modelled well enough to be compared with."""
        return self.kind == "measured" or self.model_error is None or self.model_error <= MOST_MODEL_ERROR
