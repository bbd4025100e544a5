"""What is said of a front."""

import pytest

from pairproxy.fronts.telling import name_of, why


@pytest.mark.parametrize(
    ("state", "is_engine", "words"),
    [
        ("held", True, ("Port 11434 is held by ollama (pid 7)", "pairproxy takeover")),
        ("held", False, ("Port 11434 is held by ollama (pid 7)", "engines.listen")),
        ("closed", False, ("Port 11434 is closed", "no paired machine")),
        ("given", True, ("left to its engine",)),
    ],
)  # fmt: skip
def test_what_it_means_and_what_to_do_is_said(state: str, is_engine: bool, words: tuple[str, ...]) -> None:
    """One sentence or two for each state that a person has to know of."""
    said = why(state, "ollama", 11434, "ollama (pid 7)", "", is_engine=is_engine)  # type: ignore[arg-type]
    assert all(word in said for word in words)


def test_what_is_done_about_it_takes_the_place_of_what_to_do() -> None:
    """An engine that is just being moved again needs nobody."""
    said = why("held", "ollama", 11434, None, "It was moved again just now.", is_engine=True)
    assert said.endswith("It was moved again just now.")
    assert "takeover" not in said


def test_a_port_that_is_open_needs_no_words() -> None:
    """It answers."""
    assert why("open", "ollama", 11434, None, "", is_engine=False) == ""


def test_engines_are_called_as_people_call_them() -> None:
    """What has no other name is called by its kind."""
    assert (name_of("lmstudio"), name_of("paced")) == ("LM Studio", "paced")
