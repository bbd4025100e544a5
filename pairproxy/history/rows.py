"""A record as a row of the table of requests, and back.

Left out are the hashes of its prompt, which are no text, but which somebody could compare with those of texts
that he guesses; and the client's name for its trace, which is its tracing's. What an engine or a client may
have made too large is cut to what a row may hold.
"""

import contextlib
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from pairproxy.api.runs import RunSummary
from pairproxy.core.accounting.records import AttemptRecord, RequestRecord
from pairproxy.core.models import (
    Candidate,
    Decision,
    Dialect,
    EngineId,
    ModelName,
    NodeId,
    Outcome,
    Place,
    RequestId,
    Usage,
)

TEXT_CHARACTERS: Final = 1000  # of a name or a sentence; ours have tens, and clients name runs and chains
LATEST_UNIX: Final = 1e11  # of a time: the year 5138, which every calendar has
MOST: Final = 2**62  # of a number: what SQLite's integers hold, with room; engines may say any number

COLUMNS: Final = (
    "number", "life", "request", "model", "dialect", "path", "client", "run", "chain", "origin", "arrived_s",
    "ended_s", "ended_unix", "outcome", "estimated_tokens", "max_output_tokens", "is_streaming", "error",
    "usage", "attempts",
)  # fmt: skip
"""Of the table, in the order of row_of() and record_of()."""

_Row = tuple[
    int, int, str, str, str, str, str, str | None, str, str | None, float, float, float, str, int, int | None,
    bool | int, str, str, str,
]  # fmt: skip
"""The types of COLUMNS: SQLite holds to none, and on a disk that rots it may be anything."""
_Attempt = tuple[int, str, str, str, float | None, float, float | None, float, str, int]
_Usage = tuple[
    int | None, int | None, int | None, float | None, float | None, float | None, int | None
]  # as in Usage
_Priced = tuple[
    str, str, float, float, float, float, int, int, float, float, float, int, float, float, float, str | None
]  # as in Candidate
_Decided = tuple[str, str, str, str, str | None, tuple[_Priced, ...]]

_encode: Final = msgspec.json.Encoder().encode
_attempts: Final = msgspec.json.Decoder(tuple[_Attempt, ...]).decode
_usage: Final = msgspec.json.Decoder(_Usage).decode
_decided: Final = msgspec.json.Decoder(_Decided).decode


def row_of(number: int, life: int, ended_unix: float, record: RequestRecord) -> tuple[Any, ...]:
    """The values of COLUMNS."""
    usage = record.usage
    run = record.run
    told = (
        _whole(usage.prompt_tokens), _whole(usage.cached_tokens), _whole(usage.output_tokens),
        usage.prefill_s, usage.decode_s, usage.load_s, _whole(usage.records),
    )  # fmt: skip
    attempts = [_attempt_row(one) for one in record.attempts]
    return (
        number, life, _text(record.id), _text(record.model), str(record.dialect), _text(record.path),
        _text(record.client), None if run is None else _text(run), _text(record.chain),
        record.origin, record.arrived_at, record.ended_at, ended_unix, str(record.outcome),
        _whole(record.prompt_tokens), _whole(record.max_output_tokens), int(record.is_streaming),
        _text(record.error), _encode(told).decode(), _encode(attempts).decode(),
    )  # fmt: skip


def _attempt_row(attempt: AttemptRecord) -> tuple[Any, ...]:
    place = attempt.place
    return (
        attempt.number, place.node, place.engine, _text(attempt.reason), attempt.predicted_finish_s,
        attempt.dispatched_at, attempt.first_byte_at, attempt.ended_at, attempt.end, attempt.delivered_tokens,
    )  # fmt: skip


def record_of(row: Sequence[Any], decisions: dict[int, Decision] | None = None) -> RequestRecord:
    """The record of a row of COLUMNS; ``decisions`` by number of attempt.

    Raises msgspec.MsgspecError or ValueError for a row that we did not write so.
    """
    (
        _, _, request, model, dialect, path, client, run, chain, origin, arrived_s, ended_s, ended_unix,
        outcome, estimated, most, is_streaming, error, usage, attempts,
    ) = msgspec.convert(tuple(row), _Row)  # fmt: skip
    if not all(abs(time) <= LATEST_UNIX for time in (arrived_s, ended_s, ended_unix)):
        raise ValueError("a time is none")
    return RequestRecord(
        id=RequestId(request),
        model=ModelName(model),
        dialect=Dialect(dialect),
        path=path,
        client=client,
        run=run,
        origin=None if origin is None else NodeId(origin),
        arrived_at=arrived_s,
        ended_at=ended_s,
        attempts=tuple(_attempt_of(one, decisions or {}) for one in _attempts(attempts)),
        outcome=Outcome(outcome),
        usage=Usage(*_usage(usage)),
        chain=chain,
        prompt_tokens=estimated,
        max_output_tokens=most,
        is_streaming=bool(is_streaming),
        error=error,
    )


def _attempt_of(row: _Attempt, decisions: dict[int, Decision]) -> AttemptRecord:
    number, node, engine, reason, predicted_s, dispatched_s, first_byte_s, ended_s, end, delivered = row
    return AttemptRecord(
        number=number,
        place=Place(NodeId(node), EngineId(engine)),
        reason=reason,
        predicted_finish_s=predicted_s,
        dispatched_at=dispatched_s,
        first_byte_at=first_byte_s,
        ended_at=ended_s,
        end=end,
        decision=decisions.get(number),
        delivered_tokens=delivered,
    )


def decision_row(decision: Decision) -> str:
    """A decision with all its candidates and their prices, as JSON without names: there are many of them."""
    candidates = [
        (
            one.place.node, one.place.engine, one.wait_s, one.load_s, one.prefill_s, one.decode_s,
            one.in_flight, one.slots, one.margin_s, one.alone_s, one.read_s, _whole(one.cached_tokens),
            one.affinity_s, one.delay_s, one.chain_s, one.called,
        )
        for one in decision.candidates
    ]  # fmt: skip
    place, reason = decision.place, _text(decision.reason)
    return _encode((place.node, place.engine, decision.policy, reason, decision.called, candidates)).decode()


def decision_of(row: str) -> Decision:
    """The decision of decision_row(). Raises msgspec.MsgspecError."""
    node, engine, policy, reason, called, candidates = _decided(row)
    return Decision(
        Place(NodeId(node), EngineId(engine)),
        policy,
        reason,
        tuple(map(_candidate_of, candidates)),
        called,
    )


def _candidate_of(row: _Priced) -> Candidate:
    node, engine, wait_s, load_s, prefill_s, decode_s, in_flight, slots, margin_s = row[:9]
    alone_s, read_s, cached_tokens, affinity_s, delay_s, chain_s, called = row[9:]
    return Candidate(
        Place(NodeId(node), EngineId(engine)), wait_s, load_s, prefill_s, decode_s, in_flight, slots,
        margin_s, alone_s, read_s, cached_tokens, affinity_s, delay_s, chain_s, called,
    )  # fmt: skip


def lenient(text: bytes) -> str:
    """A text of the file: a letter that is damaged makes none of it unreadable."""
    return text.decode(errors="replace")


def summary_of(told: object) -> RunSummary | None:
    """A run in one line; None: nobody can read it any more."""
    with contextlib.suppress(msgspec.MsgspecError):
        summary = msgspec.json.decode(told, type=RunSummary) if isinstance(told, str) else None
        return summary if summary and 0.0 <= summary.started_unix <= LATEST_UNIX else None
    return None


def _text(text: str) -> str:
    """What a row may hold of a text: SQLite takes no half of a surrogate pair."""
    if len(text) <= TEXT_CHARACTERS and text.isascii():  # nearly every one; a third of the time
        return text
    return text[:TEXT_CHARACTERS].encode(errors="replace").decode()


def _whole(number: int | None) -> int | None:
    return number if number is None or -MOST <= number <= MOST else max(min(number, MOST), -MOST)
