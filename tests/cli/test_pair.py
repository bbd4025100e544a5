import json
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import here, pairproxy, sentence
from tests.support.pairing import Command, home_of, peers_of, wrong

CAN_MOUNT = (
    shutil.which("unshare") is not None
    and subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode == 0
)


@pytest.mark.slow
def test_two_commands_pair_two_machines(tmp_path: Path) -> None:
    """H01: found by mDNS on loopback, both store the other, both screens say what it means."""
    anna, ben = home_of(tmp_path, "anna"), home_of(tmp_path, "ben")
    with Command("pair", "--home", anna) as pair:
        code = pair.code()
        assert f"Pairing code: {code} (2 min)" in pair.said
        joined = pairproxy("join", code, "--home", ben)
        assert joined.returncode == 0, joined.stderr
        assert pair.ended() == 0
    ((of_ben,), (of_anna,)) = peers_of(anna), peers_of(ben)
    assert (of_ben["name"], of_anna["name"]) == ("ben-ws", "anna-ws")
    assert all(record[right] for record in (of_ben, of_anna) for right in ("may_use_me", "i_may_use"))
    for text, other, home in ((pair.said, "ben-ws", anna), (joined.stdout, "anna-ws", ben)):
        assert f"Only a daemon with this home goes by this pairing: {home}" in text
        assert f'Paired with "{other}" (id ' in text
        assert f"{other} may use this machine: yes." in text
        assert f"The owner of {other} can read whatever this machine sends there." in text
        assert "Now start `pairproxy up` on both machines." in text


@pytest.mark.slow
def test_wrong_codes_are_told_on_both_screens_and_make_the_code_void(tmp_path: Path) -> None:
    """H02, H03: three wrong ones, then the right code finds nothing, and nothing is stored anywhere."""
    anna, ben = home_of(tmp_path, "anna"), home_of(tmp_path, "ben")
    with Command("pair", "--home", anna) as pair:
        place, code = pair.place(), pair.code()
        for left in ("2 tries left", "1 try left", "0 tries left"):
            joined = here("join", wrong(code), "--at", place, "--home", ben)
            assert joined.returncode == 1
            assert joined.stderr.count(f"says that the code is wrong ({left})") == 1
            assert "Not paired; nothing was stored" in joined.stderr
            assert ("Make a new one there." in joined.stderr) == (left == "0 tries left")
            pair.until(rf"A wrong code was tried: it was mistyped, or somebody else .* \({left}\)")
        assert pair.ended() == 1
        assert "tried three times without success, so it is void" in pair.said
    late = here("join", code, "--at", place, "--home", ben)
    assert "Nothing answers at 127.0.0.1" in sentence(late)
    assert peers_of(anna) == peers_of(ben) == []


@pytest.mark.slow
def test_a_token_is_pasted_in_one_line(tmp_path: Path) -> None:
    """The same pairing, from standard input, in JSON on both sides."""
    anna, ben = home_of(tmp_path, "anna"), home_of(tmp_path, "ben")
    with Command("pair", "--token", "--json", "--home", anna) as pair:
        offered = json.loads(pair.until(r"(\{.*\})\n")[1])
        assert offered["code"].startswith("pp1-")
        assert offered["expires_s"] == 600
        joined = subprocess.run(
            [
                sys.executable,
                "-m",
                "pairproxy",
                "join",
                "-",
                "--at",
                offered["at"][0],
                "--json",
                "--home",
                ben,
            ],
            input=offered["code"] + "\n",
            capture_output=True,
            text=True,
            timeout=50,
        )
        assert joined.returncode == 0, joined.stderr
        assert pair.ended() == 0
    on_ben = json.loads(joined.stdout)
    on_anna = json.loads(pair.said.splitlines()[-1])
    assert (on_ben["name"], on_anna["name"]) == ("anna-ws", "ben-ws")
    assert on_ben["node"] == peers_of(ben)[0]["node"]
    assert on_anna["has_daemon"] is on_anna["other_has_daemon"] is False


@pytest.mark.slow
def test_each_side_decides_what_the_other_may_do(tmp_path: Path) -> None:
    """Slots and models are this machine's; --one-way there means that it is not used from here."""
    anna, ben = home_of(tmp_path, "anna"), home_of(tmp_path, "ben")
    with Command("pair", "--home", anna, "--slots", "2", "--model", "qwen*", "--model", "llama3") as pair:
        joined = pairproxy("join", pair.code(), "--at", pair.place(), "--home", ben, "--one-way")
        assert joined.returncode == 0, joined.stderr
        assert pair.ended() == 0
    ((of_ben,), (of_anna,)) = peers_of(anna), peers_of(ben)
    assert (of_ben["slots"], of_ben["models"]) == (2, ["qwen*", "llama3"])
    assert (of_ben["may_use_me"], of_ben["i_may_use"]) == (True, False)
    assert (of_anna["may_use_me"], of_anna["i_may_use"]) == (False, True)
    assert "ben-ws may use this machine: 2 slots, qwen*, llama3." in pair.said
    assert "This machine may use ben-ws: no." in pair.said
    assert "anna-ws may use this machine: no." in joined.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_ending_it_leaves_nothing(number: signal.Signals, tmp_path: Path) -> None:
    """Ctrl-C while it waits: the port is closed, nothing is stored, no traceback."""
    anna = home_of(tmp_path, "anna")
    with Command("pair", "--home", anna) as pair:
        host, _, port = pair.place().rpartition(":")
        pair.process.send_signal(number)
        assert pair.ended() in (130, 143)
    assert "Traceback" not in pair.said
    assert "Stopped: this code is void, and nothing was paired." in pair.said
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=5.0)
    assert peers_of(anna) == []


@pytest.mark.skipif(not CAN_MOUNT, reason="no unprivileged mount namespace here, so no disk can be filled")
@pytest.mark.parametrize("command", ["pair", "join 4821-9376 --at 127.0.0.1:9"])
def test_a_full_disk_is_told_before_anybody_is_bothered(command: str, tmp_path: Path) -> None:
    """F36: the reason and the file are named, the old state stays."""
    anna = home_of(tmp_path, "anna")
    fill = 'mount -t tmpfs -o size=64k,mode=700 none "$1/peers"; head -c 70000 /dev/zero > "$1/peers/full"'
    script = f'{fill} 2>/dev/null; shift; exec "$@"'
    (anna / "peers").mkdir(mode=0o700)
    line = [sys.executable, "-m", "pairproxy", *command.split(), "--home", str(anna)]
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, "sh", str(anna), *line],
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert "cannot be written: No space left on device. Nothing was changed." in done.stderr
    assert peers_of(anna) == []


@pytest.mark.parametrize("option", [("--slots", "1"), ("--model", "m")])
@pytest.mark.parametrize("command", [("pair",), ("join", "4821-9376")])
def test_what_contradicts_itself_is_wrong_usage(
    home: Path, command: tuple[str, ...], option: tuple[str, str]
) -> None:
    """Exit status 2, before a code is shown: who may use nothing has no share of it."""
    done = here(*command, "--home", home, "--one-way", *option)
    assert (done.returncode, done.stdout) == (2, "")
    assert list(home.iterdir()) == []


def test_models_that_mean_nothing_are_refused_at_once(home: Path) -> None:
    """Before a code is shown."""
    assert "--model" in sentence(here("pair", "--home", home, "--model", ""))
