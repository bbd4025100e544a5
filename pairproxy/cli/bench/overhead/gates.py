"""What pairproxy promises, beside what was measured. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from pairproxy.cli.bench.overhead.figures import Figures, Table, ratio, value_of

US_PER_MS = 1e3


@dataclass(frozen=True, slots=True)
class Gate:
    """One promise: ``must`` and ``ambitious`` are bounds; None: there is none. No value: not measured."""

    name: str
    value: float | None
    unit: str
    must: float | None
    ambitious: float | None
    stretch: float | None = None
    is_least: bool = False  # the value may not be below the bounds; else not above

    def _holds(self, bound: float | None) -> bool:
        if bound is None or self.value is None:
            return True
        return self.value >= bound if self.is_least else self.value <= bound

    @property
    def is_missed(self) -> bool:
        """Whether a must is missed."""
        return not self._holds(self.must)

    @property
    def verdict(self) -> str:
        """In words."""
        if self.value is None:
            return "not measured"
        if self.is_missed:
            return "MISSED"
        if not self._holds(self.ambitious):
            return "passed" if self.must is not None else "behind"
        return "stretch" if self.stretch is not None and self._holds(self.stretch) else "ambitious"


def gates(table: Table) -> list[Gate]:
    """All promises (issue 8), judged as far as there are figures."""
    return [*_beside_nginx(table), *_absolute(table), *_ahead(table)]


def _beside_nginx(table: Table) -> list[Gate]:
    def times(case: str, field: str) -> float | None:
        ours, theirs = table.get(("pairproxy", case)), table.get(("nginx", case))
        return ratio(value_of(ours, field), value_of(theirs, field))

    return [
        Gate("first byte, one client / nginx's", times("json-1", "first_byte_p50_us"), "x", 2.0, 1.6, 1.2),
        Gate(
            "small JSON per CPU second, 64 clients / nginx's", times("json-64", "requests_per_cpu_s"), "x",
            0.20, 0.28, 0.6, is_least=True,
        ),
        Gate("CPU per chunk, 512 paced streams / nginx's", times("paced-512", "cpu_s_per_100k_chunks"), "x",
             1.30, 1.15, 1.0),
        Gate("first byte, 512 paced streams / nginx's", times("paced-512", "first_byte_p50_us"), "x",
             None, 3.0, 1.5),
    ]  # fmt: skip


def _absolute(table: Table) -> list[Gate]:
    ours = {case: figures for (target, case), figures in table.items() if target == "pairproxy"}
    peer, alone = table.get(("pairproxy-peer", "peer-1")), ours.get("json-1")
    peer_us, alone_us = value_of(peer, "first_byte_p50_us"), value_of(alone, "first_byte_p50_us")
    added = None if peer_us is None or alone_us is None else (peer_us - alone_us) / US_PER_MS
    few, many, stalled = (ours.get(case) for case in ("paced-64", "paced-512", "stalled"))
    errors = None if many is None else float(many.errors + many.unanswered)
    return [
        Gate("first byte, 512 paced streams", _ms(many, "first_byte_p50_us"), "ms", 25.0, None),
        Gate("peak memory, 512 paced streams", value_of(many, "peak_mb"), "MB", 80.0, 55.0),
        Gate("errors, 512 paced streams", errors, "", 0.0, 0.0),
        Gate("chunk transit p99, 64 paced streams", _ms(few, "transit_p99_us"), "ms", 3.0, 3.0),
        Gate("chunk transit p99, 512 paced streams", _ms(many, "transit_p99_us"), "ms", 30.0, 30.0),
        Gate("memory gained, 64 stalled clients", value_of(stalled, "grown_mb"), "MB", 2.0, 1.0),
        Gate("first byte, added by a peer over mutual TLS", added, "ms", 1.0, 1.0),
    ]


def _ahead(table: Table) -> list[Gate]:
    """Against other routers: how many times as many small requests a CPU second serves."""
    ours = value_of(table.get(("pairproxy", "json-64")), "requests_per_cpu_s")
    wanted = {"sglang-router": 1.0, "vllm-router": 1.0, "litellm": 40.0, "ollama-herd": 40.0}
    return [
        Gate(
            f"small JSON per CPU second, 64 clients / {name}'s", ratio(ours, theirs), "x",
            None, times, is_least=True,
        )
        for name, times in wanted.items()
        if (theirs := value_of(table.get((name, "json-64")), "requests_per_cpu_s")) is not None
    ]  # fmt: skip


def is_any_missed(found: Sequence[Gate]) -> bool:
    """Whether a must is missed."""
    return any(gate.is_missed for gate in found)


def _ms(figures: Figures | None, field: str) -> float | None:
    value = value_of(figures, field)
    return None if value is None else value / US_PER_MS
