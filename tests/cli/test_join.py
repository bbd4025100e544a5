import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import here, sentence
from tests.support.pairing import Command, home_of, peers_of

CAN_HIDE = (
    shutil.which("unshare") is not None
    and subprocess.run(["unshare", "-rn", "true"], capture_output=True).returncode == 0
)


@pytest.mark.parametrize("code", ["1234", "abcd-efgh", "pp1-AAAA"])
def test_what_is_no_code_is_told_before_anything_happens(code: str, home: Path) -> None:
    """Nothing is made in the home for it."""
    assert "pairproxy pair" in sentence(here("join", code, "--home", home))
    assert list(home.iterdir()) == []


def test_a_place_that_is_none_is_told(home: Path) -> None:
    """With an example."""
    for place in ("http://x:1", "192.168.1.7:99999"):
        said = sentence(here("join", "4821-9376", "--at", place, "--home", home))
        assert said.startswith(f"--at {place!r} is neither HOST nor HOST:PORT")
        assert "192.168.1.7:41234" in said


def test_nobody_at_the_place_says_what_to_look_at(tmp_path: Path) -> None:
    """The command ends by itself, with the place in its sentence, and stores nothing."""
    ben = home_of(tmp_path, "ben")
    said = sentence(here("join", "4821-9376", "--at", "127.0.0.1:9", "--home", ben))
    assert "Nothing answers at 127.0.0.1, port 9." in said
    assert "firewall" in said
    assert "called so" not in said  # nor could it be, of an address
    assert "called so here" in sentence(here("join", "4821-9376", "--at", "localhost:9", "--home", ben))
    assert peers_of(ben) == []


@pytest.mark.slow
@pytest.mark.skipif(not CAN_HIDE, reason="no unprivileged network namespace here, so no machine without one")
def test_without_a_network_both_commands_say_so(tmp_path: Path) -> None:
    """Rather than that nobody shows the code, or to add an address where there is none."""
    ben = home_of(tmp_path, "ben")
    (ben / "config.toml").unlink()
    alone = ("unshare", "-rn", sys.executable, "-m", "pairproxy")
    join = subprocess.run(
        [*alone, "join", "4821-9376", "--home", ben], capture_output=True, text=True, timeout=50.0
    )
    assert (join.returncode, join.stderr.count("This machine has no network on which")) == (1, 1)
    with subprocess.Popen([*alone, "pair", "--home", ben], stdout=subprocess.PIPE, text=True) as pair:
        assert pair.stdout is not None
        said = [pair.stdout.readline() for _ in range(3)]
        pair.send_signal(signal.SIGINT)
        assert pair.wait(30.0) == 130
    assert said[2].startswith("This machine is on no network where another could reach it")


def test_ending_it_leaves_nothing(tmp_path: Path) -> None:
    """Ctrl-C while it looks for the other machine."""
    ben = home_of(tmp_path, "ben")
    with Command("join", "0721-9376", "--home", ben) as join:
        join.until("Looking for")
        join.process.send_signal(signal.SIGINT)
        assert join.ended() == 130
    assert "Traceback" not in join.said
    assert "Stopped. Not paired; nothing was stored on this machine." in join.said
    assert peers_of(ben) == []


@pytest.mark.skipif(os.name != "posix", reason="POSIX modes")
def test_a_home_that_is_open_to_others_is_refused(tmp_path: Path) -> None:
    """F36: with the command that mends it, before the other machine is asked."""
    ben = home_of(tmp_path, "ben")
    (ben / "peers").mkdir(mode=0o755)
    (ben / "peers").chmod(0o755)
    assert "chmod 700" in sentence(here("join", "4821-9376", "--at", "127.0.0.1:9", "--home", ben))
