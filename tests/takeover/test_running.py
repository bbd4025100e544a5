import sys
from pathlib import Path

import pytest

from pairproxy.takeover.running import OUTPUT_BYTES, CommandFailed, Runner


def script(directory: Path, name: str, text: str) -> None:
    """A program of that name."""
    path = directory / name
    path.write_text(f"#!{sys.executable} -SE\nimport os, sys, time\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    """One that finds the programs of tmp_path only, and is not root."""
    return Runner({"PATH": str(tmp_path)}, as_root=False)


def test_it_tells_status_and_output(tmp_path: Path, runner: Runner) -> None:
    """Words reach the program as they are: there is no shell."""
    script(tmp_path, "echo", "print(sys.argv[1:]); print('why', file=sys.stderr); sys.exit(3)")
    done = runner.run(["echo", "a b", "$HOME;ls"])
    assert (done.status, done.out, done.why, done.is_ok) == (3, "['a b', '$HOME;ls']\n", "why", False)


def test_a_command_that_says_no_is_an_error_with_its_words(tmp_path: Path, runner: Runner) -> None:
    """On one line, without what moves a terminal's cursor."""
    script(tmp_path, "no", "print('first'); sys.stderr.write('bad\\x1b[2J\\nworse\\n'); sys.exit(1)")
    with pytest.raises(CommandFailed, match=r"^`no` failed: bad\[2J / worse\.$"):
        runner.do(["no"])


def test_a_command_that_is_missing_is_named(runner: Runner) -> None:
    """Nobody has to guess what to install."""
    with pytest.raises(CommandFailed, match="`systemctl` is not installed"):
        runner.run(["systemctl", "show"])


def test_a_command_that_hangs_is_ended(tmp_path: Path, runner: Runner) -> None:
    """After the time that it was given."""
    script(tmp_path, "hang", "time.sleep(60)")
    with pytest.raises(CommandFailed, match="did not end within 0 s"):
        runner.run(["hang"], timeout_s=0.2)


def test_a_child_that_keeps_the_pipe_does_not_hold_us_up(tmp_path: Path, runner: Runner) -> None:
    """A command that starts an app ends; the app has its output for years."""
    script(tmp_path, "open", "print('on', flush=True)\nif os.fork() == 0: time.sleep(20)")
    assert runner.run(["open"], timeout_s=10).out == "on\n"


def test_output_is_bounded(tmp_path: Path, runner: Runner) -> None:
    """The beginning is kept, the rest is read and dropped: the command is not blocked."""
    script(tmp_path, "much", f"sys.stdout.write('x' * {OUTPUT_BYTES + 100_000})")
    assert len(runner.run(["much"]).out) == OUTPUT_BYTES


def test_root_is_had_through_sudo(tmp_path: Path, runner: Runner) -> None:
    """Who is not root asks sudo, with the input; who is root does not."""
    script(tmp_path, "sudo", "print('sudo', sys.argv[1:], sys.stdin.read())")
    script(tmp_path, "tee", "print('tee', sys.argv[1:], sys.stdin.read())")
    assert runner.run(["tee", "x"], needs_root=True, text="in").out == "sudo ['tee', 'x'] in\n"
    assert runner.shown(["tee", "x y"], needs_root=True) == "sudo tee 'x y'"
    root = Runner({"PATH": str(tmp_path)}, as_root=True)
    assert root.run(["tee", "x"], needs_root=True, text="in").out == "tee ['x'] in\n"
    assert root.shown(["tee", "x"], needs_root=True) == "tee x"


def test_a_daemon_never_asks_for_a_password(tmp_path: Path) -> None:
    """sudo is told not to."""
    script(tmp_path, "sudo", "print(sys.argv[1:])")
    runner = Runner({"PATH": str(tmp_path)}, as_root=False, may_ask=False)
    assert runner.run(["ls"], needs_root=True).out == "['-n', 'ls']\n"


def test_without_sudo_it_says_how_to_go_on(runner: Runner) -> None:
    """Root can do it by hand."""
    with pytest.raises(CommandFailed, match=r"there is no sudo here.*--dry-run"):
        runner.do(["ls"], needs_root=True)
