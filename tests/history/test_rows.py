import sqlite3
from dataclasses import fields, replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pairproxy.core.accounting.records import BROKEN, AttemptRecord, RequestRecord
from pairproxy.core.models import Candidate, Decision, Dialect, NodeId, Outcome, Place, Usage
from pairproxy.history import schema
from pairproxy.history.rows import (
    COLUMNS,
    MOST,
    TEXT_CHARACTERS,
    decision_of,
    decision_row,
    record_of,
    row_of,
)
from tests.core.accounting.conversation import A, B, at, dispatch, served

seconds = st.floats(0.0, 1e9)
counts = st.integers(0, MOST)
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=TEXT_CHARACTERS)
usages = st.builds(
    Usage,
    *(st.none() | counts for _ in range(3)),
    *(st.none() | seconds for _ in range(3)),
    st.none() | counts,
)
attempts = st.builds(
    AttemptRecord, st.integers(1, 99), st.sampled_from([at(A), at(B)]), words, st.none() | seconds, seconds,
    st.none() | seconds, seconds, st.sampled_from(["done", BROKEN, "Unreachable"]), st.none(), counts,
)  # fmt: skip
KEPT = {
    "id": words, "model": words, "dialect": st.sampled_from(Dialect), "path": words, "client": words,
    "run": st.none() | words, "origin": st.none() | st.just(NodeId("b")), "arrived_at": seconds,
    "ended_at": seconds, "attempts": st.lists(attempts, max_size=3).map(tuple),
    "outcome": st.sampled_from(Outcome), "usage": usages, "chain": words, "prompt_tokens": counts,
    "max_output_tokens": st.none() | counts, "is_streaming": st.booleans(), "error": words,
}  # fmt: skip
LEFT_OUT = {"prefix", "trace"}
"""What could be compared with guessed texts, and what belongs to the client's own tracing."""
records = st.builds(RequestRecord, **KEPT)
prices = [seconds] * 4 + [counts] * 2 + [seconds] * 3 + [counts] + [seconds] * 3 + [st.none() | words]
candidates = st.builds(Candidate, st.builds(Place, words, words), *prices)
decisions = st.builds(
    Decision, st.builds(Place, words, words), words, words, st.lists(candidates, max_size=3).map(tuple),
    st.none() | words,
)  # fmt: skip


def through_sqlite(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """The row as it comes back from a table."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    schema.upgrade(connection)
    marks = ", ".join("?" * len(COLUMNS))
    names = ", ".join(COLUMNS)
    connection.execute(f"INSERT INTO requests ({names}) VALUES ({marks})", row)  # noqa: S608
    back: tuple[Any, ...] = connection.execute(f"SELECT {names} FROM requests").fetchone()  # noqa: S608
    return back


@given(records)
def test_what_goes_in_comes_out(record: RequestRecord) -> None:
    """Every record, through the file, to the last bit of its times."""
    back = record_of(through_sqlite(row_of(7, 1, 1.5, record)))
    assert back == record
    assert back.usage.records == record.usage.records


@given(decisions)
def test_a_decision_comes_out_as_it_went_in(decision: Decision) -> None:
    """With all candidates and all their prices."""
    assert decision_of(decision_row(decision)) == decision


def test_each_field_of_a_record_is_kept_or_left_out_on_purpose() -> None:
    """Who adds one decides."""
    assert {one.name for one in fields(RequestRecord)} == KEPT.keys() | LEFT_OUT


def test_no_hash_of_a_prompt_is_in_a_row() -> None:
    """They could be compared with those of texts that somebody guesses."""
    row = row_of(1, 1, 0.0, served("r", 0.0, 1.0, 2.0, prefix=(1234567891, 987654321)))
    assert "1234567891" not in repr(row)
    assert record_of(row).prefix == ()


def test_what_is_too_large_is_cut() -> None:
    """A client names runs as it likes, and an engine may say any number."""
    record = served("r", 0.0, 1.0, 2.0, run="x" * 9999, tokens=10**30, error="half \ud800 a pair")
    back = record_of(through_sqlite(row_of(1, 1, 0.0, record)))
    assert back.run == "x" * TEXT_CHARACTERS
    assert back.usage.output_tokens == MOST
    assert back.error == "half ? a pair"


def test_decisions_go_to_their_attempts() -> None:
    """By number; the others have none."""
    decision = dispatch("r", A).decision
    record = served("r", 0.0, 1.0, 2.0)
    second = replace(record.attempts[0], number=2)
    back = record_of(row_of(1, 1, 0.0, replace(record, attempts=(*record.attempts, second))), {2: decision})
    assert [one.decision for one in back.attempts] == [None, decision]
