from rich.text import Text

from pairproxy.tui.table import Column, blocks, natural_width, table

COLUMNS = (
    Column("node", 4),
    Column("slots", 3, is_rigid=True),
    Column("tok/s", 5, rank=1, is_right=True),
    Column("model", 5, rank=2),
)
ROWS = [
    [Text("desk"), Text("##.."), Text("12"), Text("qwen3:30b")],
    [Text("a-laptop"), Text("#"), Text(), Text()],
]


def plainly(width: int) -> list[str]:
    """The table as text."""
    return [line.plain for line in table(COLUMNS, ROWS, width, "..")]


def test_a_table_that_fits_is_as_wide_as_its_content() -> None:
    """Numbers stand to the right."""
    assert plainly(80) == [
        "node      slots  tok/s  model",
        "desk      ##..      12  qwen3:30b",
        "a-laptop  #",
    ]
    assert natural_width(COLUMNS, ROWS) == 33


def test_where_it_does_not_fit_names_are_cut_and_pictures_are_not() -> None:
    """Down to the least width of each column."""
    assert plainly(27) == [
        "node   slots  tok/s  model",
        "desk   ##..      12  qwen..",
        "a-l..  #",
    ]


def test_what_matters_least_is_left_out() -> None:
    """The highest rank first; what has no rank stays, and a line is never wider than asked."""
    assert plainly(18) == ["node  slots  tok/s", "desk  ##..      12", "a-..  #"]
    assert plainly(11) == ["node  slots", "desk  ##..", "a-..  #"]
    assert max(len(line) for line in plainly(6)) == 6


def test_on_paper_nothing_is_cut() -> None:
    """A block for each row, without what is empty."""
    assert [line.plain for line in blocks(COLUMNS, ROWS)] == [
        "node: desk",
        "  slots: ##..",
        "  tok/s: 12",
        "  model: qwen3:30b",
        "node: a-laptop",
        "  slots: #",
    ]
