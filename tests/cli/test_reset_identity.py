import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from pairproxy.api.client import LOCK_FILE
from pairproxy.cli.trusting import store_of
from pairproxy.security.identity import Identity, load_or_create
from pairproxy.security.private_files import exclusive
from tests.cli.test_trusting import befriend
from tests.support.command import TIMEOUT_S, environment, here, pairproxy


@pytest.fixture
def ben(home: Path, tmp_path: Path) -> Identity:
    """A machine that is paired with the home."""
    identity = load_or_create(tmp_path / "ben")
    befriend(home, identity, "ben-ws")
    return identity


def test_a_new_identity_ends_all_pairings_and_remembers_nobody(home: Path, ben: Identity) -> None:
    """Who has to pair again is named; the key is another one; nobody counts as forgotten."""
    old = load_or_create(home).device_id
    done = here("reset-identity", "--yes", "--home", home)
    assert done.returncode == 0
    assert '"ben-ws"' in done.stderr
    new = load_or_create(home).device_id
    assert new != old
    assert f"{new[:4]}-{new[4:8]}" in done.stdout
    store = store_of(home)
    assert store is not None
    assert (store.peers(), store.forgotten()) == ((), ())


def test_without_an_answer_nothing_changes(home: Path, ben: Identity) -> None:
    """Nobody there to ask, or "no" to the question: the identity and the peers stay."""
    old = load_or_create(home).device_id
    done = pairproxy("reset-identity", "--home", home)
    assert done.returncode == 1
    assert load_or_create(home).device_id == old
    store = store_of(home)
    assert store is not None
    assert len(store.peers()) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo terminal")
@pytest.mark.parametrize(("answer", "is_new"), [(b"n\n", False), (b"y\n", True)])
def test_the_answer_at_the_terminal_counts(home: Path, ben: Identity, answer: bytes, is_new: bool) -> None:
    """Asked there, and obeyed."""
    old = load_or_create(home).device_id
    ours, theirs = pty.openpty()
    try:
        os.write(ours, answer)
        subprocess.run(
            [sys.executable, "-m", "pairproxy", "reset-identity", "--home", str(home)],
            stdin=theirs, capture_output=True, timeout=TIMEOUT_S, env=environment(), check=False,
        )  # fmt: skip
    finally:
        os.close(ours)
        os.close(theirs)
    assert (load_or_create(home).device_id != old) is is_new


def test_while_a_daemon_runs_it_is_refused(home: Path, ben: Identity) -> None:
    """The daemon has the old key in its memory."""
    old = load_or_create(home).device_id
    with exclusive(home / LOCK_FILE):
        done = here("reset-identity", "--yes", "--home", home)
    assert (done.returncode, "Stop it" in done.stderr) == (1, True)
    assert load_or_create(home).device_id == old


def test_where_there_is_no_identity_none_is_made(home: Path) -> None:
    """It says what makes one."""
    done = here("reset-identity", "--yes", "--home", home)
    assert (done.returncode, "pairproxy up" in done.stdout) == (0, True)
    assert not any(home.iterdir())
