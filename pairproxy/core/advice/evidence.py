"""What is known of a workload when advice is asked for. Seconds, tokens, and parts from 0 to 1."""

from dataclasses import dataclass, field

from pairproxy.core.advice.memory import Memory
from pairproxy.core.discipline import Finding
from pairproxy.core.whatif.recording import Recording


@dataclass(frozen=True, slots=True)
class Timing:
    """Means over the replies that ended well, by the origin's clock; means add up, medians do not.

    latency = queue + read + write. Of replies that are no stream nobody knows where reading ended: they count
    in ``latency_s`` and ``queue_s`` only. None: there was no stream, or its engine counted no tokens.
    """

    latency_s: float
    queue_s: float
    ttft_s: float | None = None  # from arrival to the first byte
    read_s: float | None = None  # from dispatch to the first byte
    alone_read_s: float | None = None  # the same by the place's own rate, for what no cache held
    best_read_s: float | None = None  # the whole prompt at the best rate there is
    tpot_s: float | None = None  # from the first byte to the end, for each token
    alone_tpot_s: float | None = None  # by the place's own rate, with no company
    company: float | None = None  # requests that wrote at the place at the same time, this one included


@dataclass(frozen=True, slots=True)
class Prefixes:
    """How much of the prompts came from a cache, and how much could have."""

    prompt_tokens: int
    reached: float | None  # part of these tokens; None: the engines do not tell
    possible: float  # if what prompts share had been read once
    findings: tuple[tuple[Finding, tuple[int, ...]], ...] = ()
    """Clients whose prompts part early, with the requests of the recording that are theirs."""


@dataclass(frozen=True, slots=True)
class NodeUse:
    """One node that could serve the run. ``busy``: slot-seconds in use, of all that it had in the run."""

    node: str
    name: str
    slots: int
    requests: int
    busy: float


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A node that is there and could take none of the run. ``times``: as fast as this one; None: not known.

    ``lacks``: the run's models, if it has none; else what the requests ask, or a rule, keeps them from it.
    """

    node: str
    name: str
    slots: int
    lacks: tuple[str, ...]
    times: float | None = None


@dataclass(frozen=True, slots=True)
class Service:
    """What is ours to mend. None: not measured."""

    loop_lag_s: float = 0.0  # the longest in the last minute
    transport_s: float | None = None  # mean of a request between the engine's own time and ours
    reused: int = 0  # connections to engines and peers that served before
    dialled: int = 0  # connections that had to be opened
    foreign: int = 0  # slots not offered, for somebody uses the engine beside us


@dataclass(frozen=True, slots=True)
class Evidence:
    """All of it. ``recording`` is what the simulator replays."""

    recording: Recording
    timing: Timing
    prefixes: Prefixes
    nodes: tuple[NodeUse, ...]
    elsewhere: tuple[Elsewhere, ...] = ()
    memory: Memory = field(default_factory=Memory)
    service: Service = field(default_factory=Service)

    @property
    def requests(self) -> int:
        """Those that ended well and are looked at."""
        return len(self.recording.requests)

    @property
    def slots(self) -> int:
        """Of all nodes that could serve the run."""
        return sum(place.slots for place in self.recording.places)


@dataclass(frozen=True, slots=True)
class Conclusion:
    """One lever: whether it helps, why in words, and the numbers (each with its unit in its name)."""

    lever: str
    helps: bool
    sentence: str
    numbers: dict[str, float]
    gain_s: float | None = None  # of the makespan; None: not simulated
    gain: float | None = None  # the part by which the run, or a request on average, is sooner
