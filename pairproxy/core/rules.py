"""What a person sets about scheduling; the shell hands it in, and may hand in another while requests run."""

from dataclasses import dataclass

PREFIX_LENGTH = 256  # characters: one block, which a chat keeps from its first turn on
CONCURRENCY_THRESHOLD = 8  # in flight at one node: two rounds of the four slots that llama-server has
STALE_S = 3.0  # three missed documents: no new requests there


@dataclass(frozen=True, slots=True)
class Rules:
    """What a person can set about scheduling."""

    policy: str = "fastest-finish"
    prefix_length: int = PREFIX_LENGTH  # characters; of the policy prefix-aware, as the next one is
    concurrency_threshold: int = CONCURRENCY_THRESHOLD  # requests in flight
    queue_limit: int = 256
    queue_timeout_s: float = 600.0
    attempts: int = 3
    local_only: tuple[str, ...] = ()  # patterns of models whose requests stay on this node
    stale_s: float = STALE_S  # a node that was silent for so long gets nothing new
    stuck_s: float = 60.0  # of these three see core.silence
    quiet_s: float = 120.0
    gone_s: float = 30.0
    rescue: bool = True  # whether a straggler of a burst may be taken back and done elsewhere (core.rescue)
    continuation: bool = False  # whether a reply that lost its node goes on elsewhere (core.continuing)

    @property
    def is_rescuing(self) -> bool:
        """Whether that is done: a policy that does not compare seconds would send it anywhere."""
        return self.rescue and self.policy == "fastest-finish"
