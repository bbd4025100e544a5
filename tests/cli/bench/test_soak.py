import asyncio

import pytest

from pairproxy.cli.bench.soak import FLUSH, JOB, KEEP_BYTES, MB, soak_table
from pairproxy.cli.bench.tables import Row
from pairproxy.history.pending import LIMIT_PENDING


@pytest.mark.slow
def test_every_request_is_accounted_for() -> None:
    """In the counts and on the disk, whatever their number; it says what there was as it goes on."""
    said: list[str] = []
    rows, notes = asyncio.run(soak_table(10 * FLUSH + 7, said.append))
    assert by_name(rows)["requests not accounted for"].value == 0
    assert len(said) == 1
    assert notes
    assert JOB < FLUSH < LIMIT_PENDING


@pytest.mark.slow
@pytest.mark.timeout(280)
def test_nothing_grows_with_the_number_of_requests() -> None:
    """50,000 of them: when the tables are full, memory stays as it is and the file within its bound."""
    rows, _ = asyncio.run(soak_table(50_000, lambda _: None))
    assert not [row.experiment for row in rows if row.is_met is False]
    assert 4.0 < by_name(rows)["history.db, the most"].value <= KEEP_BYTES / MB


def by_name(rows: list[Row]) -> dict[str, Row]:
    """The rows by what they measure."""
    return {row.experiment: row for row in rows}
