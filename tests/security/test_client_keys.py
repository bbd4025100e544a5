"""Keys of programs beyond loopback: made, kept as hashes, taken no longer."""

import base64
import json
import re
import stat
import sys
from pathlib import Path

import pytest

from pairproxy.core.errors import StoreError
from pairproxy.security import client_keys
from pairproxy.security.client_keys import KEYS_FILE, ClientKeys, judged, make_key


@pytest.fixture
def keys(tmp_path: Path) -> ClientKeys:
    """Those of an empty home."""
    tmp_path.chmod(0o700)
    return ClientKeys(tmp_path)


KEPT = {"name": "a", "hash": "0" * 64, "added_at": 1}


def test_a_key_has_160_random_bits_and_is_never_the_same() -> None:
    """As its text says: base32 of 20 bytes, and four characters that check them."""
    made = [make_key() for _ in range(200)]
    assert len(set(made)) == 200
    for key in made:
        assert re.fullmatch("ppk_[a-z2-7]{36}", key)
        assert len(base64.b32decode(key[4:36].upper())) == 20
        assert judged(key) == "key"


def test_a_mistyped_key_is_told_from_one_that_is_not_known() -> None:
    """Any one character changed, left out or doubled is seen; a key of another maker is none of ours."""
    key = make_key()
    for place in range(4, len(key)):
        other = "a" if key[place] != "a" else "b"
        assert judged(key[:place] + other + key[place + 1 :]) == "mistyped"
        assert judged(key[:place] + key[place + 1 :]) == "mistyped"
    assert judged("sk-proj-1234") == "foreign"
    assert judged("ppk_\N{KELVIN SIGN}" + key[5:]) == "mistyped"


def test_the_file_holds_no_key_and_is_its_owners(keys: ClientKeys, tmp_path: Path) -> None:
    """Who reads it can use none of them."""
    key, kept = keys.add("web-ui", ("qwen*",), 2)
    text = (tmp_path / KEYS_FILE).read_text()
    assert key not in text
    assert key[4:20] not in text
    if sys.platform != "win32":
        assert stat.S_IMODE((tmp_path / KEYS_FILE).stat().st_mode) == 0o600
    read = ClientKeys(tmp_path)
    assert read.take(read.read()).added == (kept,)
    assert read.find(key) == kept
    assert (kept.models, kept.slots) == (("qwen*",), 2)
    assert read.find(key.upper()) is None
    assert read.find("\ud800") is None


def test_a_name_taken_again_is_another_key(keys: ClientKeys, tmp_path: Path) -> None:
    """What was open under the first one is told apart from what comes under the second."""
    daemon = ClientKeys(tmp_path)
    old, first = keys.add("ci")
    daemon.take(daemon.read())
    assert keys.revoke("ci") == first
    new, second = keys.add("ci")
    news = daemon.take(daemon.read())
    assert (news.gone, news.added) == ((first,), (second,))
    assert (daemon.find(old), daemon.find(new)) == (None, second)


@pytest.mark.parametrize("name", ["", "-x", "a b", "a/b", "ä", "x" * 65, "a\n", "\x1b[2J"])
def test_a_name_is_a_word(name: str, keys: ClientKeys) -> None:
    """It stands in logs, reports and tables."""
    with pytest.raises(StoreError, match="name"):
        keys.add(name)
    assert keys.keys() == ()


@pytest.mark.parametrize("models", [("",), ("a\x1b",), ("x" * 5000,), ("x",) * 10_000])
def test_models_are_patterns(models: tuple[str, ...], keys: ClientKeys) -> None:
    """Printable, short, and not too many."""
    with pytest.raises(StoreError, match="models"):
        keys.add("ci", models)


def test_what_cannot_be_is_refused_and_changes_nothing(
    keys: ClientKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name twice, one too many, one that is not there."""
    with pytest.raises(StoreError, match="no key yet"):
        keys.revoke("ci")
    keys.add("ci")
    with pytest.raises(StoreError, match="already"):
        keys.add("ci")
    with pytest.raises(StoreError, match="There is ci"):
        keys.revoke("web")
    monkeypatch.setattr(client_keys, "MOST_KEYS", 1)
    with pytest.raises(StoreError, match="Revoke one"):
        keys.add("web")
    assert [one.name for one in keys.read()] == ["ci"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "damaged"),
        ("[" * 5000, "damaged"),
        ('{"version":1,"keys":[{"name":"x"}]}', "damaged"),
        ('{"version":2,"keys":[]}', "newer"),
        ('{"version":2,"keys":{"other":"shape"}}', "newer"),
        (json.dumps({"keys": 2 * [KEPT]}), "damaged"),
        (json.dumps({"keys": [KEPT, KEPT | {"name": "b"}]}), "damaged"),
        *(
            (json.dumps({"keys": [KEPT | wrong]}), "damaged")
            for wrong in (
                {"hash": "0"},
                {"hash": "\u00e4" * 64},
                {"hash": "A" * 64},
                {"name": "a\nb"},
                {"name": ""},
                {"slots": 0},
                {"slots": -1},
                {"models": [""]},
                {"models": ["\x1b[2J"]},
                {"more": 1},
            )
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_told(text: str, words: str, keys: ClientKeys, tmp_path: Path) -> None:
    """And not overwritten by the next key."""
    (tmp_path / KEYS_FILE).write_text(text)
    (tmp_path / KEYS_FILE).chmod(0o600)
    with pytest.raises(StoreError, match=words):
        keys.read()
    with pytest.raises(StoreError):
        keys.add("ci")
    assert (tmp_path / KEYS_FILE).read_text() == text


@pytest.mark.skipif(sys.platform == "win32", reason="there are no modes on Windows")
def test_a_file_open_to_others_is_refused(keys: ClientKeys, tmp_path: Path) -> None:
    """They could have put a key of their own in."""
    keys.add("ci")
    (tmp_path / KEYS_FILE).chmod(0o644)
    with pytest.raises(StoreError, match="chmod 600"):
        keys.read()
