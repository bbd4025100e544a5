from dataclasses import dataclass

import msgspec
import pytest

from pairproxy.api.fields import described, unit_of


class Told(msgspec.Struct):
    """A document."""

    plain: str
    age_s: float
    size_bytes: int  # of the body
    state: str = "x"  # one word
    longer: tuple[str, ...] = ()  # at its end


@dataclass
class Inner:
    """A part of one."""

    read_tokens: int  # so far


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("age_s", "seconds"),
        ("decode_tokens_per_s", "tokens a second"),
        ("at_unix", "seconds of the epoch"),
        ("prompt_tokens", "tokens"),
        ("requests", ""),
        ("tokens", ""),
    ],
)
def test_a_name_ends_in_its_unit(name: str, unit: str) -> None:
    """And a count has none."""
    assert unit_of(name) == unit


def test_the_comment_beside_a_field_is_what_it_means() -> None:
    """After its unit; what is for tools is left out."""
    assert described([Told, Inner]) == {
        Told: {
            "age_s": "seconds",
            "size_bytes": "bytes; of the body",
            "state": "one word",
            "longer": "at its end",
        },
        Inner: {"read_tokens": "tokens; so far"},
    }


def test_without_its_source_a_class_has_its_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a package of compiled files."""
    namespace: dict[str, type] = {}
    exec("class Odd:\n    wait_s: float\n    name: str\n", namespace)  # noqa: S102
    assert described([namespace["Odd"]]) == {namespace["Odd"]: {"wait_s": "seconds"}}
