"""Where each setting comes from."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pairproxy.origins import MOST_LINES, Origin, Origins

FILE = Path("x/config.toml")
TEXT = """\
# a comment
node.name = "anna"

[peers]
static = [
  "a:1",   # one
  "b:2",
]
discovery = false

[[engines]]
kind = "ollama"
[[engines]]
kind = "paced"
[engines.paced]
decode = 7
[engines.aliases]
a = "b"
"""
LINES = {
    "node.name": 2, "peers": 4, "peers.static": 5, "peers.discovery": 9, "engines": 11, "engines[0]": 11,
    "engines[0].kind": 12, "engines[1].kind": 14, "engines[1].paced.decode": 16, "engines[1].aliases.a": 18,
}  # fmt: skip


def test_what_stands_in_the_file_is_told_by_its_line() -> None:
    """The one where it begins, however it is written; a table by its head."""
    found = Origins(FILE, TEXT, {}, {})
    assert {key: found.of(key).line for key in LINES} == LINES
    assert found.of("peers.listen") == Origin("default")
    assert str(found.of("node.name")) == f"{FILE}, line 2"
    assert (found.told("peers.listen"), Origins(None, "", {}, {}).told("x")) == (str(FILE), "settings")


def test_a_flag_beats_a_variable_and_that_the_file() -> None:
    """As the values do."""
    text = '[log]\nlevel = "error"\nformat = "json"\n[node]\nname = "a"\n'
    found = Origins(
        FILE,
        text,
        {"PAIRPROXY_LOG_LEVEL": "info", "PAIRPROXY_LOG_FORMAT": "text"},
        {"log": {"level": "debug"}},
    )
    assert found.of("log.level") == Origin("flag")
    assert found.of("log.format") == Origin("environment", "PAIRPROXY_LOG_FORMAT")
    assert found.of("node.name") == Origin("file", str(FILE), 5)
    assert [found.told(key) for key in ("log.level", "log.format")] == ["a flag", "PAIRPROXY_LOG_FORMAT"]


def test_a_file_of_thousands_of_lines_is_told_without_them() -> None:
    """To find them would take seconds."""
    found = Origins(FILE, '[node]\nname = "a"\n' + "#\n" * MOST_LINES, {}, {})
    assert found.of("node.name") == Origin("file", str(FILE), None)


@given(st.lists(st.sampled_from(["", "# a comment", "   "]), max_size=8))
def test_a_line_is_the_one_that_a_person_counts(before: list[str]) -> None:
    """Whatever stands above it."""
    text = "\n".join([*before, "[limits]", "attempts = 4"])
    assert Origins(FILE, text, {}, {}).of("limits.attempts").line == len(before) + 2
