"""The runs that are remembered, in memory and on disk: GET /runs. ``_unix``: seconds of the epoch."""

import msgspec


class RunSummary(msgspec.Struct, frozen=True):
    """One run in one line; its whole report is GET /report?run=ID. None: not known, as in RunReport."""

    run: str
    name: str | None
    started_unix: float
    makespan_s: float
    requests: int
    outcomes: dict[str, int]
    nodes: int  # that could have served it
    slots: int
    bound_waves: float
    bound_provable: float | None
    speedup: float | None
    efficiency: float | None
    output_tokens: int
    request: str = ""  # one of it; GET /report?run= takes it for this very run, where several have its name


class Runs(msgspec.Struct, frozen=True):
    """GET /runs[?since=SECONDS][&limit=N]: the latest first. ``problem``: why history is not written now."""

    node: str
    runs: tuple[RunSummary, ...]
    has_more: bool = False
    problem: str | None = None


class Exported(msgspec.Struct, frozen=True):
    """What `pairproxy report --export FILE --json` prints: what was written, and where."""

    file: str
    format: str  # jsonl or csv
    runs: int
    requests: int
