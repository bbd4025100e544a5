"""What a node's clock saw of one attempt at its own engine: the raw material of its speeds."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds, corrected for nothing; with what is needed to correct them.

    ``ttft_s`` is dispatch to first byte, 0.0 if that says nothing of reading the prompt. ``own_part`` is the
    mean part of the machine that its reading had: one of n that read at once has 1/n. ``company_s[c]`` are
    the seconds of its decoding during which c requests ran; empty if not known.
    """

    ttft_s: float = 0.0
    own_part: float = 1.0
    company_s: Mapping[int, float] = field(default_factory=dict)

    def decoding(self, told_s: float | None) -> Mapping[int, float]:
        """``company_s``, but as long as the engine says that decoding took, if it does."""
        seen_s = sum(self.company_s.values())
        if told_s is None:
            return self.company_s if seen_s > 0.0 else {}
        if told_s <= 0.0:
            return {}
        if seen_s <= 0.0:
            return {1: told_s}
        return {company: seconds * told_s / seen_s for company, seconds in self.company_s.items()}
