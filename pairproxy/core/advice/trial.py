"""What came of one simulation, and how it compares with another."""

from collections.abc import Mapping
from dataclasses import dataclass

from pairproxy.core.advice.evidence import Conclusion
from pairproxy.core.advice.words import change, part, seconds
from pairproxy.core.workload import SimResult

LEAST_GAIN = 0.05  # of the makespan, or of a request's mean time: less is lost in the weather of a day
HAIR = 0.01  # of a machine's speed: nobody knows it better from one run
UNSEEN = 0.005  # of the run: what is told in two digits shows no less


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of it, in seconds. ``hit_rate``: of the prompts' tokens.

    ``error``: of the run as it was, the part by which the simulation of it is off. ``least``: what comes
    of it at speeds a HAIR otherwise, where a choice of the scheduler hangs on them and it gains less.
    """

    makespan_s: float
    latency_s: float  # mean
    ttft_s: float  # mean
    hit_rate: float
    error: float = 0.0
    least: "Trial | None" = None

    def gain(self, base: "Trial") -> float:
        """The part by which it is better than another: of the makespan, or of the mean time if that is more.

        A change that ends the run later is no gain, however soon the others are done.
        """
        of_run = 1.0 - self.makespan_s / base.makespan_s
        of_request = 1.0 - self.latency_s / base.latency_s
        return max(of_run, of_request) if of_run > -LEAST_GAIN else of_run

    def gains(self, base: "Trial") -> bool:
        """Whether that is worth a person's work, and more than the simulation is off."""
        return self.gain(base) >= max(LEAST_GAIN, base.error)

    def effect(self, base: "Trial") -> str:
        """What it changes, in words: the run, or a request where only that gains."""
        of_run = 1.0 - self.makespan_s / base.makespan_s
        if abs(of_run) < UNSEEN and abs(self.gain(base)) < UNSEEN:
            return "the run would end no sooner"
        if of_run < max(LEAST_GAIN, base.error) <= self.gain(base):
            told = f"a request would take {change(base.latency_s, self.latency_s)} on average"
            return told + self._or_else(is_of_run=False)
        told = f"the run would end in {change(base.makespan_s, self.makespan_s)}"
        return told + self._or_else(is_of_run=True)

    def _or_else(self, *, is_of_run: bool) -> str:
        if self.least is None:
            return ""
        of_request = "" if is_of_run else f"{seconds(self.least.latency_s)}, and the run "
        return f" ({of_request}{seconds(self.least.makespan_s)} at speeds {part(HAIR)} otherwise)"

    def concluded(self, lever: str, base: "Trial", sentence: str, numbers: Mapping[str, float]) -> Conclusion:
        """The conclusion of this trial, with its own numbers beside those that led to it."""
        own = {
            "simulated_before_s": base.makespan_s,
            "simulated_after_s": self.makespan_s,
            "request_before_s": base.latency_s,
            "request_after_s": self.latency_s,
            "ttft_before_s": base.ttft_s,
            "ttft_after_s": self.ttft_s,
        }
        if self.least is not None:
            own |= {"least_after_s": self.least.makespan_s, "least_request_after_s": self.least.latency_s}
        gain_s = base.makespan_s - self.makespan_s
        return Conclusion(lever, self.gains(base), sentence, {**numbers, **own}, gain_s, self.gain(base))


def trial_of(result: SimResult) -> Trial:
    """What came of a simulation."""
    ttfts = [ttft for ttft in result.ttfts_s if ttft is not None]
    return Trial(
        makespan_s=result.makespan_s,
        latency_s=sum(record.latency_s for record in result.records) / len(result.records),
        ttft_s=sum(ttfts) / max(len(ttfts), 1),
        hit_rate=result.hit_rate,
    )
