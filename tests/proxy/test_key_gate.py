"""Who may use the key port."""

import logging

import pytest

from pairproxy.core.errors import NotAuthenticated, TooManyFailures
from pairproxy.proxy import key_gate
from pairproxy.proxy.key_gate import KeyGate, shown_in, without_keys
from pairproxy.security.client_keys import ClientKey, make_key

KEY = make_key()
OTHER = make_key()
KNOWN = {KEY: ClientKey("ci", "00", 1), OTHER: ClientKey("web", "11", 1)}


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def gate(clock: Clock | None = None) -> KeyGate:
    """One that knows two keys."""
    return KeyGate(KNOWN.get, clock or Clock())


@pytest.mark.parametrize(
    "fields",
    [
        [("Authorization", f"Bearer {KEY}")],
        [("authorization", f"bearer   {KEY} ")],
        [("X-Api-Key", KEY)],
        [("api-key", f" {KEY} ")],
        [("Authorization", "Bearer ollama"), ("x-api-key", KEY)],
        [("Authorization", f"Bearer {KEY}"), ("x-api-key", KEY)],
        [("Authorization", "Basic dXNlcjpwYXNz"), ("api-key", KEY)],
    ],
)
def test_a_key_is_found_where_sdks_put_theirs(fields: list[tuple[str, str]]) -> None:
    """Also beside a placeholder that a program sends whether it is asked or not."""
    assert gate().admit(shown_in(fields), "10.0.0.9").name == "ci"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ([], "needs a key"),
        ([("Authorization", KEY)], "needs a key"),
        ([("Authorization", f"Basic {KEY}")], "needs a key"),
        ([("Cookie", f"key={KEY}")], "needs a key"),
        ([("x-api-key", "")], "needs a key"),
        ([("x-api-key", make_key())], "not known here"),
        ([("x-api-key", "sk-1234")], "not known here"),
        ([("x-api-key", KEY[:-1])], "not whole"),
        ([("x-api-key", KEY.upper())], "not known here"),
        ([("x-api-key", KEY), ("api-key", OTHER)], "Several keys"),
    ],
)
def test_who_shows_none_that_is_known_is_told_why(fields: list[tuple[str, str]], words: str) -> None:
    """And never a word of what was shown."""
    with pytest.raises(NotAuthenticated, match=words) as caught:
        gate().admit(shown_in(fields), "10.0.0.9")
    assert KEY not in caught.value.sentence


def test_failures_are_limited_by_address_and_a_right_key_passes(caplog: pytest.LogCaptureFixture) -> None:
    """The eleventh within a minute is told to wait; others of that address, and later ones, are not."""
    caplog.set_level(logging.INFO)
    clock = Clock()
    tried = gate(clock)
    for _ in range(key_gate.FAILURES):
        with pytest.raises(NotAuthenticated):
            tried.admit(["ppk_wrong"], "10.0.0.9")
    with pytest.raises(TooManyFailures) as caught:
        tried.admit(["ppk_wrong"], "10.0.0.9")
    assert caught.value.retry_after_s is not None
    assert 1 <= caught.value.retry_after_s <= key_gate.WINDOW_S
    assert tried.admit([KEY], "10.0.0.9").name == "ci"
    with pytest.raises(NotAuthenticated):
        tried.admit([], "10.0.0.10")
    clock.now += key_gate.WINDOW_S
    with pytest.raises(NotAuthenticated):
        tried.admit([], "10.0.0.9")
    told = [record.getMessage() for record in caplog.records]
    assert [text.split(" asks")[0] for text in told] == [
        f"a program at 10.0.0.{number}" for number in (9, 10, 9)
    ]
    assert "wrong" not in "".join(told)


def test_the_table_of_failures_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever comes from many addresses drives out the count of the oldest, and no more."""
    monkeypatch.setattr(key_gate, "MOST_ADDRESSES", 4)
    tried = gate()
    for number in range(40):
        with pytest.raises(NotAuthenticated):
            tried.admit([], f"10.0.0.{number}")
    assert len(tried._failures) == 4


def test_strangers_of_many_addresses_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """One machine can call from any number of IPv6 addresses: some are told, then that there are more."""
    clock = Clock()
    tried = gate(clock)
    for minute in range(2):
        for number in range(500):
            with pytest.raises(NotAuthenticated):
                tried.admit([], f"fd00::{minute}:{number:x}")
        clock.now += key_gate.WINDOW_S
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2 * (key_gate.MOST_TOLD + 1)
    assert told[key_gate.MOST_TOLD].startswith("programs at many more addresses")


def test_what_goes_on_has_no_key_and_the_engines_own_host() -> None:
    """Nor a cookie, nor what a proxy in between tells of itself."""
    fields = {
        "Host": "attacker.example",
        "AUTHORIZATION": f"Bearer {KEY}",
        "X-API-Key": "wrong",
        "Api-Key": KEY,
        "Cookie": "a=b",
        "X-Forwarded-For": "1.2.3.4",
        "Content-Type": "application/json",
    }
    assert without_keys(fields, "127.0.0.1:11534") == [
        ("Host", "127.0.0.1:11534"),
        ("Content-Type", "application/json"),
    ]
