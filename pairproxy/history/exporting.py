"""History for other programs: JSON lines with all of it, or a CSV table of the requests. Times are UTC."""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TextIO

import msgspec

from pairproxy.api.runs import RunSummary
from pairproxy.core.accounting.records import AttemptRecord
from pairproxy.history.reading import Past, StoredRequest, StoredRun
from pairproxy.history.rows import LATEST_UNIX

FORMATS = ("jsonl", "csv")
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What makes a spreadsheet take a cell for a formula, which may read files or send what it finds."""
MOST_RUNS = 10**6  # more than a file of any size we keep can hold

COLUMNS = (
    "run", "run_name", "request", "model", "node", "node_name", "engine", "origin", "outcome", "error",
    "arrived", "queue_s", "ttft_s", "service_s", "latency_s", "prompt_tokens", "cached_tokens",
    "output_tokens", "attempts", "continued", "reason", "dialect", "path", "client", "chain", "is_streaming",
)  # fmt: skip
"""Of the CSV, in this order; columns may be added at the end."""


@dataclass(slots=True)
class Wanted:
    """Which part: of one run (its name or id), or of all; only what is from then on."""

    since_unix: float = 0.0
    run: str | None = None


@dataclass(slots=True)
class Written:
    """What was written so far."""

    runs: int = 0
    requests: int = 0
    _tell: Callable[["Written"], None] = field(default=lambda _: None, repr=False)

    def more(self) -> None:
        """One request more."""
        self.requests += 1
        if self.requests % 500 == 0:
            self._tell(self)


def export(
    past: Past, wanted: Wanted, kind: str, out: TextIO, tell: Callable[[Written], None] = lambda _: None
) -> Written:
    """Write ``wanted`` to ``out`` as jsonl or csv; ``tell`` hears of each 500 requests. Raises StoreError."""
    runs = past.runs(wanted.since_unix if wanted.run is None else 0.0, MOST_RUNS, wanted.run)
    if wanted.run is not None:
        runs = [one for one in runs if one.summary.started_unix >= wanted.since_unix]
    runs.reverse()
    written = Written(len(runs), 0, tell)
    names, by_number = past.names(), {one.number: one.summary for one in runs}
    requests = _requests(past, wanted, runs, by_number)
    if kind == "csv":
        _csv(requests, by_number, names, out, written)
    else:
        for run in runs:
            _line(out, {"kind": "run"} | _built(run.summary))
        for one in requests:
            _line(out, {"kind": "request"} | _request(one, by_number.get(one.run or -1), names) | _more(one))
            written.more()
        if wanted.run is None:
            for change in past.changes(wanted.since_unix):
                at = {"at": _iso(change.at_unix), "at_unix": change.at_unix}
                _line(
                    out,
                    {
                        "kind": "change",
                        **at,
                        "node": change.node,
                        "what": change.what,
                        "detail": change.detail,
                    },
                )
    return written


def _requests(
    past: Past, wanted: Wanted, runs: Iterable[StoredRun], by_number: dict[int, RunSummary]
) -> Iterator[StoredRequest]:
    if wanted.run is not None:
        for run in runs:
            yield from past.requests(0.0, run.number)
        return
    for one in past.requests(wanted.since_unix):
        if one.run is not None and one.run not in by_number:  # of a run that began before
            continue
        yield one


def _csv(
    requests: Iterable[StoredRequest],
    runs: Mapping[int, RunSummary],
    names: Mapping[str, str],
    out: TextIO,
    written: Written,
) -> None:
    table = csv.writer(out, lineterminator="\r\n")  # RFC 4180
    table.writerow(COLUMNS)
    for one in requests:
        told = _request(one, runs.get(one.run or -1), names)
        table.writerow([_cell(told[column]) for column in COLUMNS])
        written.more()


def _cell(value: Any) -> Any:
    """A text that a spreadsheet would take for a formula gets a quote before it, which it does not show."""
    if isinstance(value, str) and value.startswith(FORMULA):
        return f"'{value}"
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else value


def _request(one: StoredRequest, run: RunSummary | None, names: Mapping[str, str]) -> dict[str, Any]:
    """The values of COLUMNS."""
    record = one.record
    place, final = record.place, record.final
    return {
        "run": "" if run is None else run.run,
        "run_name": record.run or "",
        "request": record.id,
        "model": record.model,
        "node": place.node if place else "",
        "node_name": names.get(place.node, "") if place else "",
        "engine": place.engine if place else "",
        "origin": record.origin or "",
        "outcome": record.outcome.value,
        "error": record.error,
        "arrived": _iso(one.ended_unix - record.latency_s),
        "queue_s": record.queue_s,
        "ttft_s": record.ttft_s,
        "service_s": record.service_s,
        "latency_s": record.latency_s,
        "prompt_tokens": record.usage.prompt_tokens,
        "cached_tokens": record.usage.cached_tokens,
        "output_tokens": record.usage.output_tokens,
        "attempts": len(record.attempts),
        "continued": record.continued,
        "reason": final.reason if final else "",
        "dialect": record.dialect.value,
        "path": record.path,
        "client": record.client,
        "chain": record.chain,
        "is_streaming": record.is_streaming,
    }


def _more(one: StoredRequest) -> dict[str, Any]:
    """What has no place in a table."""
    record = one.record
    usage = record.usage
    return {
        "arrived_unix": one.ended_unix - record.latency_s,
        "estimated_tokens": record.prompt_tokens,
        "max_output_tokens": record.max_output_tokens,
        "prefill_s": usage.prefill_s,
        "decode_s": usage.decode_s,
        "load_s": usage.load_s,
        "tries": [_try(attempt, record.arrived_at) for attempt in record.attempts],
    }


def _try(attempt: AttemptRecord, arrived_at: float) -> dict[str, Any]:
    """One attempt; its times count from the request's arrival."""
    first = attempt.first_byte_at
    told: dict[str, Any] = {
        "number": attempt.number,
        "node": attempt.place.node,
        "engine": attempt.place.engine,
        "reason": attempt.reason,
        "predicted_finish_s": attempt.predicted_finish_s,
        "dispatched_s": attempt.dispatched_at - arrived_at,
        "first_byte_s": None if first is None else first - arrived_at,
        "ended_s": attempt.ended_at - arrived_at,
        "end": attempt.end,
        "delivered_tokens": attempt.delivered_tokens,
    }
    if attempt.decision is not None:
        told["policy"] = attempt.decision.policy
        told["candidates"] = [
            {"node": place[0], "engine": place[1], **prices}
            for one in attempt.decision.candidates
            for prices in [_built(one)]
            for place in [prices.pop("place")]
        ]
    return told


def _built(value: Any) -> dict[str, Any]:
    built: dict[str, Any] = msgspec.to_builtins(value)
    return built


def _line(out: TextIO, told: dict[str, Any]) -> None:
    """In ASCII: no name can end a line for a reader of another kind, or command a terminal."""
    out.write(json.dumps(told, separators=(",", ":")) + "\n")


def _iso(unix: float) -> str:
    return datetime.fromtimestamp(min(max(unix, 0.0), LATEST_UNIX), UTC).isoformat(timespec="milliseconds")
