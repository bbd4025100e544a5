import os
import signal
from pathlib import Path

import pytest

from tests.support.command import here, sentence
from tests.support.pairing import Command, home_of, peers_of


@pytest.mark.parametrize("code", ["1234", "abcd-efgh", "pp1-AAAA"])
def test_what_is_no_code_is_told_before_anything_happens(code: str, home: Path) -> None:
    """Nothing is made in the home for it."""
    assert "pairproxy pair" in sentence(here("join", code, "--home", home))
    assert list(home.iterdir()) == []


def test_a_place_that_is_none_is_told(home: Path) -> None:
    """With an example."""
    assert "--at" in sentence(here("join", "4821-9376", "--at", "http://x:1", "--home", home))


def test_nobody_at_the_place_says_what_to_look_at(tmp_path: Path) -> None:
    """The command ends by itself, with the place in its sentence, and stores nothing."""
    ben = home_of(tmp_path, "ben")
    said = sentence(here("join", "4821-9376", "--at", "127.0.0.1:9", "--home", ben))
    assert "Nothing answers at 127.0.0.1, port 9." in said
    assert "firewall" in said
    assert peers_of(ben) == []


def test_ending_it_leaves_nothing(tmp_path: Path) -> None:
    """Ctrl-C while it looks for the other machine."""
    ben = home_of(tmp_path, "ben")
    with Command("join", "0721-9376", "--home", ben) as join:
        join.until("Looking for")
        join.process.send_signal(signal.SIGINT)
        assert join.ended() == 130
    assert "Traceback" not in join.said
    assert peers_of(ben) == []


@pytest.mark.skipif(os.name != "posix", reason="POSIX modes")
def test_a_home_that_is_open_to_others_is_refused(tmp_path: Path) -> None:
    """F36: with the command that mends it, before the other machine is asked."""
    ben = home_of(tmp_path, "ben")
    (ben / "peers").mkdir(mode=0o755)
    (ben / "peers").chmod(0o755)
    assert "chmod 700" in sentence(here("join", "4821-9376", "--at", "127.0.0.1:9", "--home", ben))
