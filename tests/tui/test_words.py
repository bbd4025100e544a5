import pytest

from pairproxy.tui.words import called, counted, lasting, named, plain


def test_what_others_named_cannot_steer_a_terminal() -> None:
    """Escape sequences lose what makes them ones; a name stays one line; directions cannot be turned."""
    assert plain("\x1b[2Jbox\x07\nnew\u202e") == "[2Jbox new"


def test_a_name_is_as_wide_on_every_terminal() -> None:
    """Selectors of variants and of skin go, for terminals disagree on them; accents are put together."""
    assert named("👩🏽\u200d🚀 ❤\ufe0f e\u0301", is_ascii=False) == "👩🚀 ❤ é"


def test_without_unicode_a_question_mark_stands_for_what_is_not_there() -> None:
    """One for each character."""
    assert named("Jürgens 模型", is_ascii=True) == "J?rgens ??"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1.0, "0.00 s"), (0.421, "0.42 s"), (12.34, "12.3 s"), (59.99, "60.0 s"), (75.0, "75 s"),
        (720.0, "12 min"), (10800.0, "3 h"), (345600.0, "4 d"), (1e7, "116 d"),
    ],
)  # fmt: skip
def test_a_time_fits_into_six_characters(seconds: float, text: str) -> None:
    """Fewer digits for what lasts longer."""
    assert lasting(seconds) == text
    assert len(text) <= 6


def test_one_is_not_plural() -> None:
    """But nothing is."""
    assert [counted(count, "slot") for count in (0, 1, 2)] == ["0 slots", "1 slot", "2 slots"]


def test_a_run_without_a_name_is_called_by_the_beginning_of_its_id() -> None:
    """A name stays whole, however it looks."""
    assert called("7a7a48dff6fc4aebb9628b8283d02377") == "7a7a48df"
    for name in ("nightly", "7a7a48dff6fc4aebb9628b8283d0237", "deadbeef nightly of the second week"):
        assert called(name) == name
