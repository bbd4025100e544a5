"""What would make this workload faster: GET /advice."""

from typing import Literal

import msgspec

Lever = Literal[
    "more-slots",
    "more-nodes",
    "routing",
    "prefix-routing",
    "loading",
    "prefill",
    "decode",
    "service-layer",
    "idle-nodes",
    "nothing",
]


class Advice(msgspec.Struct, frozen=True):
    """One line. ``numbers`` are those it was concluded from, each with its unit in its name."""

    lever: Lever
    helps: bool  # False: this lever was looked at and does not
    sentence: str
    numbers: dict[str, float]
    gain_s: float | None = None  # of the makespan of the run it was reckoned for; None: not simulated
    gain: float | None = None  # the part by which the run, or a request on average, would be sooner


class AdviceReport(msgspec.Struct, frozen=True):
    """GET /advice[?run=NAME]: what helps most first, then what does not, each with its reason."""

    node: str
    run: str | None  # None: no request has ended yet
    requests: int
    advice: tuple[Advice, ...]
    model_error: float | None = None  # part by which the simulation is off on the run as it was; None: none
    missing: tuple[str, ...] = ()  # what could not be measured here, and why
