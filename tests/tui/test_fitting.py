from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.text import Text

from pairproxy.tui.fitting import cut, padded, wrapped


@given(st.text(), st.integers(0, 20), st.sampled_from(("…", "..")), st.booleans())
def test_padded_is_exactly_as_wide_as_asked(text: str, columns: int, ellipsis: str, to_right: bool) -> None:
    """Also where a character of two columns would be cut through."""
    text = "".join(one for one in text if one.isprintable() and one != "\ufe0f")
    assert cell_len(padded(Text(text), columns, ellipsis, to_right=to_right).plain) == columns


def test_what_is_cut_says_so() -> None:
    """And keeps its colours; what fits is left alone."""
    assert cut(Text("laptop", "red"), 4, "…").markup == "[red]lap…[/red]"
    assert cut(Text("laptop"), 4, "..").plain == "la.."
    assert cut(Text("laptop"), 6, "…").plain == "laptop"
    assert cut(Text("laptop"), 1, "…").plain == "l"
    assert cut(Text("模型模型"), 4, "…").plain == "模 …"


def test_sentences_break_between_words() -> None:
    """A word longer than the line stands alone, to be cut."""
    assert wrapped("one two three", 7) == ["one two", "three"]
    assert wrapped("a verylongword b", 4) == ["a", "verylongword", "b"]
    assert wrapped("", 4) == []
    assert wrapped("one two three four", 7, 2) == ["one two", "three four"]
