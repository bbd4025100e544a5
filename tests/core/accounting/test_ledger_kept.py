from pairproxy.core.models import Outcome
from tests.core.accounting.conversation import A, Told, asked, dispatch


def test_the_last_ones_say_how_their_places_were_chosen() -> None:
    """Decisions and beginnings of prompts are kept for the newest requests only; the records stay."""
    told = Told(limit_decisions=2, limit_blocks=5)
    for time, name in enumerate("wxyz"):
        told.arrived(time, asked(name, prefix=(1, 2, time + 3)), dispatch(name, A))
        told.finished(time + 0.5, name)
    records = told.ledger.records
    assert [record.id for record in records] == ["w", "x", "y", "z"]
    assert [record.attempts[0].decision is not None for record in records] == [False, False, True, True]
    assert [record.attempts[0].reason for record in records] == ["finishes first"] * 4
    assert [record.prefix for record in records] == [(), (), (), (1, 2, 6)]


def test_what_is_kept_is_the_last_however_many_there_were() -> None:
    """Of each kind as many as there is room for, also after many times as many records."""
    told = Told(limit_records=5, limit_decisions=2, limit_blocks=6)
    for time in range(23):
        prefix = tuple(range(time % 3))
        told.arrived(time, asked(f"r{time}", prefix=prefix), dispatch(f"r{time}", A))
        told.finished(time + 0.5, f"r{time}", outcome=Outcome.DONE if time % 2 else Outcome.ERROR)
        records = told.ledger.records
        assert [record.id for record in records] == [f"r{one}" for one in range(max(time - 4, 0), time + 1)]
        decided = [record.attempts[0].decision is not None for record in records]
        assert decided == [one < 2 for one in reversed(range(len(records)))]
        assert [len(record.prefix) for record in records] == [int(record.id[1:]) % 3 for record in records]
        assert sum(told.ledger.outcomes.values()) == len(records)


def test_a_prompt_that_is_too_long_for_all_of_it_is_not_kept() -> None:
    """One that has more blocks than may be kept leaves none, and what comes after it is kept again."""
    told = Told(limit_blocks=3)
    for name, blocks in (("long", (1, 2, 3, 4)), ("short", (5,))):
        told.arrived(0.0, asked(name, prefix=blocks), dispatch(name, A))
        told.finished(1.0, name)
    assert [record.prefix for record in told.ledger.records] == [(), (5,)]
