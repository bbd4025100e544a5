"""From samples to figures: medians of the rounds, and what a request or a token costs. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import msgspec


class Heard(msgspec.Struct, frozen=True):
    """What the load generator prints (native/load_generator.c)."""

    seconds: float
    requests: int
    tokens: int
    all_requests: int
    all_tokens: int
    errors: int
    unanswered: int
    first_byte_p50_us: float
    first_byte_p99_us: float
    whole_p50_us: float
    whole_p99_us: float
    transit_p50_us: float
    transit_p99_us: float


@dataclass(frozen=True, slots=True)
class Sample:
    """One workload on one target, once. No process of a target (direct): nothing of its costs."""

    heard: Heard
    cpu_s: float | None = None
    peak_bytes: int | None = None
    grown_bytes: int | None = None  # while clients do not read
    told: str = ""  # by the load generator, of errors


@dataclass(frozen=True, slots=True)
class Figures:
    """Medians over the rounds; ``errors`` and ``unanswered`` are sums. None: there is no such figure."""

    requests_per_s: float
    first_byte_p50_us: float | None
    first_byte_p99_us: float | None
    transit_p50_us: float | None
    transit_p99_us: float | None
    cpu_s_per_1000_requests: float | None
    cpu_s_per_100k_chunks: float | None
    peak_mb: float | None
    grown_mb: float | None
    errors: int
    unanswered: int

    @property
    def requests_per_cpu_s(self) -> float | None:
        """How many requests a second of its processor serves."""
        return 1000.0 / self.cpu_s_per_1000_requests if self.cpu_s_per_1000_requests else None


Table = Mapping[tuple[str, str], Figures]
"""By the names of target and case."""


def figures(samples: Sequence[Sample], *, is_stream: bool) -> Figures:
    """Of one target at one case."""
    heard = [one.heard for one in samples]
    return Figures(
        requests_per_s=median(one.requests / one.seconds for one in heard),
        first_byte_p50_us=_median([one.first_byte_p50_us or None for one in heard]),
        first_byte_p99_us=_median([one.first_byte_p99_us or None for one in heard]),
        transit_p50_us=_median([one.transit_p50_us or None for one in heard]),
        transit_p99_us=_median([one.transit_p99_us or None for one in heard]),
        cpu_s_per_1000_requests=_median([_per(one, one.heard.all_requests, 1e3) for one in samples]),
        cpu_s_per_100k_chunks=_median(
            [_per(one, one.heard.all_tokens, 1e5) if is_stream else None for one in samples]
        ),
        peak_mb=_median([None if one.peak_bytes is None else one.peak_bytes / 1e6 for one in samples]),
        grown_mb=_median([None if one.grown_bytes is None else one.grown_bytes / 1e6 for one in samples]),
        errors=sum(one.errors for one in heard),
        unanswered=sum(one.unanswered for one in heard),
    )


def _per(sample: Sample, count: int, unit: float) -> float | None:
    """None without a reply that was done: a few tokens of broken ones would bear all that it cost."""
    if sample.cpu_s is None or not count or not sample.heard.all_requests:
        return None
    return sample.cpu_s / count * unit


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def value_of(figures: Figures | None, field: str) -> float | None:
    """One figure of them, where there are any."""
    value: float | None = None if figures is None else getattr(figures, field)
    return value


def ratio(value: float | None, other: float | None) -> float | None:
    """How many times ``other`` it is, where both are known."""
    return value / other if value is not None and other else None
