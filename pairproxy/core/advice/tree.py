"""The decision tree: which lever helps this workload.

::

    throughput low, TTFT and TPOT fine    more slots or nodes, by how much       (throughput)
    TTFT high, prompts begin alike        prefix routing, or the client's order  (reading)
    TTFT high, prompts have little alike  the prefill itself                     (reading)
    TPOT high, small batch                memory: quantisation, tiers            (writing)
    all fine, but costly                  idle nodes, the service layer          (throughput, serving)
    none of them gains                    nothing to gain, which is said

What is high is told by the measured pieces of a request's time; what helps, by the simulator: a lever is
advised where the run, or a request on average, gets LEAST_GAIN sooner by it. What cannot be simulated goes by
the pieces alone.
"""

from pairproxy.core.advice import reading, serving, throughput, writing
from pairproxy.core.advice.evidence import Conclusion, Evidence
from pairproxy.core.advice.trial import LEAST_GAIN
from pairproxy.core.advice.trials import Trials
from pairproxy.core.advice.words import counted, part, seconds

EASE = (
    "routing", "prefix-routing", "loading", "idle-nodes", "more-slots", "service-layer", "decode", "prefill",
    "more-nodes", "nothing",
)  # fmt: skip
"""The levers: a setting comes before work, and work before money."""


def advise(evidence: Evidence, trials: Trials) -> tuple[Conclusion, ...]:
    """What helps, most first; then what was looked at and does not. Never empty."""
    found = [
        *throughput.more_slots(evidence, trials),
        *throughput.more_nodes(evidence, trials),
        *throughput.idle_nodes(evidence, trials),
        *reading.prefix_routing(evidence, trials),
        *reading.prompt_order(evidence, trials),
        *reading.prefill(evidence, trials),
        *writing.decode(evidence, trials),
        *serving.loading(evidence, trials),
        *serving.service_layer(evidence),
    ]
    helping = sorted((one for one in found if one.helps), key=_worth)
    rejected = [one for one in found if not one.helps]
    return (*(helping or [nothing(evidence, trials)]), *rejected)


def _worth(one: Conclusion) -> tuple[float, int]:
    """By the part that is gained, in steps of LEAST_GAIN; of equals, what costs a person least."""
    return -round((one.gain or 0.0) / LEAST_GAIN), EASE.index(one.lever)


def nothing(evidence: Evidence, trials: Trials) -> Conclusion:
    """All levers were looked at, and none gains enough to be worth a person's work."""
    timing = evidence.timing
    numbers = {"latency_s": timing.latency_s, "queue_s": timing.queue_s}
    pieces = [f"{seconds(timing.queue_s)} of waiting"]
    if timing.ttft_s is not None:
        numbers["ttft_s"] = timing.ttft_s
        pieces.append(f"the first token after {seconds(timing.ttft_s)}")
    if timing.tpot_s is not None:
        numbers["tpot_s"] = timing.tpot_s
        pieces.append(f"a token every {seconds(timing.tpot_s)}")
    told = f"{counted(evidence.requests, 'request')} with {', '.join(pieces)}"
    if trials.base is None:
        how = "what a change would gain is not known, for the run as it was cannot be simulated"
        return Conclusion("nothing", True, f"Nothing to advise: {told}; {how}.", numbers)
    how = f"no lever but faster machines gains {part(LEAST_GAIN)} of the run or of a request's time"
    return Conclusion("nothing", True, f"Nothing to gain: {told}; {how}.", numbers)
