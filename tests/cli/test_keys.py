"""pairproxy keys, without a daemon; with one: tests/test_key_clients.py."""

import json
from pathlib import Path

import pytest
from cryptography import x509

from pairproxy.security.client_keys import ClientKeys
from tests.support.command import here, sentence


def test_standard_output_has_the_key_alone(home: Path) -> None:
    """So that a script can take it; what to do with it stands beside, and that no daemon runs."""
    (home / "config.toml").write_text('[clients]\nlisten = "0.0.0.0:18443"\n')
    done = here("keys", "add", "web-ui", "--home", home)
    assert done.returncode == 0
    keys = ClientKeys(home)
    keys.take(keys.read())
    key = done.stdout.removesuffix("\n")
    assert keys.find(key) is not None
    assert key not in done.stderr
    said = " ".join(done.stderr.split())
    for words in (
        "No daemon runs here",
        "pairproxy keys certificate",
        "docs/containers.md",
        "Authorization: Bearer",
    ):
        assert words in said


def test_keys_are_listed_and_revoked_by_name(home: Path) -> None:
    """What they are is in no list."""
    assert "no key yet" in here("keys", "list", "--home", home).stdout
    key = here("keys", "add", "ci", "--model", "qwen*", "--slots", "2", "--home", home).stdout.strip()
    listed = here("keys", "list", "--home", home).stdout
    assert [word for word in listed.splitlines()[1].split() if not word.startswith("20")] == [
        "ci",
        "qwen*",
        "2",
    ]
    found = json.loads(here("keys", "list", "--home", home, "--json").stdout)
    assert [(one["name"], one["models"], one["slots"]) for one in found["keys"]] == [("ci", ["qwen*"], 2)]
    assert key not in listed + json.dumps(found)
    done = here("keys", "revoke", "ci", "--home", home)
    assert done.stdout == "Revoked ci. No daemon runs here; the next one will not take it.\n"
    assert "There is no key of this name" in sentence(here("keys", "revoke", "ci", "--home", home))


@pytest.mark.parametrize(
    ("line", "status", "words"),
    [
        (["add"], 2, "Missing argument"),
        (["add", "a b"], 1, "A key's name has"),
        (["add", "ci", "--slots", "0"], 2, "--slots"),
        (["add", "ci", "--model", ""], 1, "patterns"),
        (["revoke", "\x1b[2J"], 1, "no key of this name"),
        (["drop", "ci"], 2, "No such command"),
    ],
)
def test_wrong_uses_are_told(line: list[str], status: int, words: str, home: Path) -> None:
    """And change nothing."""
    done = here("keys", *line, "--home", home)
    assert (done.returncode, done.stdout) == (status, "")
    assert words in " ".join(done.stderr.split())
    assert "\x1b" not in done.stderr
    assert ClientKeys(home).read() == ()


def test_the_certificate_is_there_before_the_first_daemon(home: Path) -> None:
    """And the same ever after: images are built with it."""
    first = here("keys", "certificate", "--home", home)
    assert first.returncode == 0
    authority = x509.load_pem_x509_certificate(first.stdout.encode())
    assert authority.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert "PRIVATE" not in first.stdout
    assert here("keys", "certificate", "--home", home).stdout == first.stdout
