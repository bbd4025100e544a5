from hypothesis import given
from hypothesis import strategies as st

from pairproxy.tui.cells import Slots, gauge, shares, slot_cells, sparkline, waiting_cells, wave_bar
from pairproxy.tui.palette import ASCII


def test_there_is_a_cell_for_every_slot() -> None:
    """Those that write, read, work for others, are free and are withheld, told apart by the character."""
    slots = Slots(writing=2, reading=1, others=1, free=2, withheld=1)
    assert slot_cells(slots, 20, ASCII).plain == "# # = o . . x"
    assert slot_cells(slots, 10, ASCII).plain == "##=o..x"
    assert (slots.busy, slots.total) == (4, 6)


def test_a_cell_stands_for_several_slots_where_they_do_not_fit() -> None:
    """In proportion; one busy slot of very many is still seen."""
    assert slot_cells(Slots(32, 0, 0, 32), 8, ASCII).plain == "####...."
    assert slot_cells(Slots(1, 0, 0, 1000), 8, ASCII).plain == "#......."


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=6), st.integers(0, 60))
def test_shares_fit_and_use_the_room(counts: list[int], columns: int) -> None:
    """Never more than the columns; and all of them where there is as much."""
    assert sum(shares(counts, columns)) == min(sum(counts), columns)


@given(st.lists(st.integers(0, 50), min_size=5, max_size=5), st.integers(5, 60))
def test_what_is_there_is_seen(counts: list[int], columns: int) -> None:
    """A kind with one slot keeps its cell."""
    assert [bool(count) for count in shares(counts, columns)] == [bool(count) for count in counts]


def test_what_waits_is_counted_where_it_does_not_fit() -> None:
    """A cell each, then the number of the rest."""
    assert waiting_cells(3, 5, ASCII).plain == "ooo"
    assert waiting_cells(30, 8, ASCII).plain == "ooooo+25"
    assert waiting_cells(1000, 3, ASCII).plain == "+10"


@given(st.integers(0, 10**6), st.integers(0, 80))
def test_waiting_cells_never_need_more_room(count: int, columns: int) -> None:
    """Whatever waits."""
    assert len(waiting_cells(count, columns, ASCII).plain) <= columns


def test_a_spark_shows_the_last_values_and_what_is_little_is_not_nothing() -> None:
    """The highest is the value given, so that lines of several nodes can be compared."""
    assert sparkline((0.0, 1.0, 50.0, 100.0), 6, 100.0, ASCII).plain == "   _:#"
    assert sparkline((0.0, 1.0, 50.0, 100.0), 2, 100.0, ASCII).plain == ":#"
    assert sparkline((), 3, 0.0, ASCII).plain == "   "


def test_waves_fill_from_the_left() -> None:
    """What ended, what runs, what is to come; a line between two waves."""
    assert wave_bar(3, 1.5, 0.5, 16, ASCII).plain == "|####|##==|....|"
    assert wave_bar(3, 0.5, 1.0, 16, ASCII).plain == "|##==|==..|....|"
    assert wave_bar(3, 3.0, 0.0, 16, ASCII).plain == "|####|####|####|"


def test_more_waves_than_columns_are_one_bar() -> None:
    """Of the same meaning."""
    assert wave_bar(100, 50.0, 25.0, 8, ASCII).plain == "####==.."


@given(st.integers(0, 500), st.floats(0, 500), st.floats(0, 500), st.integers(0, 80))
def test_bars_never_need_more_room(waves: int, done: float, running: float, columns: int) -> None:
    """Whatever the numbers are."""
    assert len(wave_bar(waves, done, running, columns, ASCII).plain) <= columns
    assert len(gauge(done, running, columns, ASCII).plain) == columns
