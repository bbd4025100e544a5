"""The live page on a real pty, fed with statuses of our making."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("fcntl", reason="there are no terminals of this kind here")

from tests.support.terminal import ENTERS, HIDES, LEAVES, SHOWS, Terminal

ROOT = Path(__file__).parent.parent.parent
PROGRAM = """
import sys, threading
from pairproxy.cli.printing import console
from pairproxy.api.watching import Lost
from pairproxy.core.errors import PairproxyError
from pairproxy.tui.feed import Feed
from pairproxy.tui.live import show_live, show_pages
from pairproxy.tui.palette import palette_for
from tests.support.statuses import at_work, largest

def seen():
    yield largest() if "large" in sys.argv else at_work()
    if "lost" in sys.argv:
        yield Lost("No daemon is running here.", 1)
    if "fatal" in sys.argv:
        raise PairproxyError("The daemon is of another version.")
    threading.Event().wait()

feed = Feed(at_work(), seen())
feed.start()
out = console()
(show_pages if "pages" in sys.argv else show_live)(out, palette_for(out.encoding), feed)
print("ended")
"""
COLOUR = b"\x1b["


def terminal(*words: str, columns: int = 80, lines: int = 24, **environment: str) -> Terminal:
    """The program on a terminal that has everything."""
    plain = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS", "LINES")}
    env = plain | {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8", "PYTHONPATH": str(ROOT)} | environment
    return Terminal([sys.executable, "-c", PROGRAM, *words], columns=columns, lines=lines, env=env)


@pytest.mark.parametrize("size", [(80, 24), (200, 60)])
@pytest.mark.parametrize("words", [("small",), ("large",)])
def test_it_fills_the_screen_and_nothing_scrolls(size: tuple[int, int], words: tuple[str, ...]) -> None:
    """The last line is the legend with the key that quits; the first is where it belongs."""
    with terminal(*words, columns=size[0], lines=size[1]) as it:
        it.until(lambda: "nightly" in it.text or "run big" in it.text, "it draws")
        if "large" in words:
            it.until(lambda: "512 running" in it.text, "it draws what came after")
        assert it.lines[0].startswith("pairproxy desk")
        assert it.lines[-1].endswith("q quits")
        assert "█" in it.text
        assert it.scrolled == 0
        it.type("q")
        assert it.wait() == 0


@pytest.mark.parametrize("how", ["q", "\x03", "\x04", signal.SIGTERM, signal.SIGHUP])
def test_it_ends_and_gives_the_terminal_back(how: str | signal.Signals) -> None:
    """By q, Ctrl-C, Ctrl-D and signals: the other screen is left, the cursor and the modes are as before."""
    with terminal() as it:
        it.until(lambda: "q quits" in it.text, "it draws")
        assert it.modes != it.modes_before
        if isinstance(how, str):
            it.type(how)
        else:
            it.send(how)
        assert it.wait() == 0
        assert it.modes == it.modes_before
        for begins, ends in ((ENTERS, LEAVES), (HIDES, SHOWS)):
            assert it.raw.count(begins) == 1
            assert it.raw.rindex(begins) < it.raw.rindex(ends)
        assert it.raw.endswith(b"ended\r\n"), "nothing is written after it"


def test_another_size_is_another_page() -> None:
    """Larger and smaller, while it runs; also as small as makes no sense."""
    with terminal() as it:
        it.until(lambda: "q quits" in it.text, "it draws")
        for columns, lines in ((200, 60), (60, 12), (4, 2), (80, 24)):
            it.resize(columns, lines)
            it.until(lambda: len(it.lines) == lines and "".join(it.lines[-1:]), f"{columns}x{lines}")  # noqa: B023
        it.until(lambda: it.lines[-1].endswith("q quits"), "it draws as before")
        it.type("q")
        assert it.wait() == 0


def test_a_daemon_that_is_gone_is_told_over_what_was_last_known() -> None:
    """With its sentence, and for how long."""
    with terminal("lost") as it:
        it.until(lambda: "No news for" in it.text, "it is told")
        assert re.match(r"No news for \d+ s: No daemon is running here\.", it.lines[1])
        assert "run nightly" in it.text
        it.type("q")
        assert it.wait() == 0


def test_what_trying_again_does_not_mend_ends_it() -> None:
    """The terminal is given back before the error goes on."""
    with terminal("fatal") as it:
        assert it.wait() == 1
        assert it.modes == it.modes_before
        assert it.raw.count(LEAVES) == it.raw.count(ENTERS)
        assert b"another version" in it.raw


def test_ctrl_z_gives_the_terminal_back_until_it_goes_on() -> None:
    """And then it draws anew. Nobody here could wake a stopped process, so the kernel does not stop it."""
    with terminal() as it:
        it.until(lambda: "q quits" in it.text, "it draws")
        it.type("\x1a")
        it.until(lambda: it.raw.count(ENTERS) == 2, "it goes on")
        between = it.raw[it.raw.index(ENTERS) + 1 : it.raw.rindex(ENTERS)]
        assert LEAVES in between
        assert SHOWS in between
        it.type("q")
        assert it.wait() == 0


def test_a_terminal_that_is_gone_ends_it() -> None:
    """A closed window or a lost connection: without a traceback."""
    with terminal() as it:
        it.until(lambda: "q quits" in it.text, "it draws")
        it.hang_up()
        assert it.wait() == 0


def test_no_colour_means_none() -> None:
    """The cursor moves, and that is all."""
    with terminal(NO_COLOR="1") as it:
        it.until(lambda: "q quits" in it.text, "it draws")
        it.type("q")
        assert it.wait() == 0
        codes = [part.split(b"m")[0] for part in it.raw.split(COLOUR)[1:]]
        assert not [code for code in codes if code.replace(b";", b"").isdigit()]


def test_without_a_unicode_locale_cells_are_ascii() -> None:
    """As over ssh to a machine that has none."""
    with terminal(LC_ALL="C") as it:
        it.until(lambda: "q quits" in it.text, "it draws")
        assert it.text.isascii()
        assert "# # o ." in it.text
        it.type("q")
        assert it.wait() == 0


def test_without_a_keyboard_ctrl_c_is_named() -> None:
    """Standard input is somewhere else."""
    with open(os.devnull) as nothing:  # noqa: PTH123
        env = dict(os.environ) | {"TERM": "xterm", "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", PROGRAM]
        with Terminal(command, columns=80, lines=24, env=env, stdin=nothing.fileno()) as it:
            it.until(lambda: "Ctrl-C quits" in it.text, "it draws")
            it.type("\x03")
            assert it.wait() == 0


def test_the_terminals_own_size_counts() -> None:
    """Not that of the environment, which does not follow it; nor none, where a terminal does not know."""
    with terminal(COLUMNS="200", LINES="60") as it:
        it.until(lambda: "q quits" in it.text, "it draws")
        assert it.scrolled == 0
        it.type("q")
        assert it.wait() == 0
    with terminal() as it:
        it.resize(0, 0, tell=False)
        it.until(lambda: "q quits" in it.text, "it draws")
        assert it.scrolled == 0
        it.type("q")
        assert it.wait() == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_an_output_that_takes_nothing_is_an_error() -> None:
    """Unlike a reader that has left."""
    with open("/dev/full", "w") as full:  # noqa: PTH123
        env = dict(os.environ) | {"PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", PROGRAM, "pages"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, env=env, timeout=20)
    assert done.returncode != 0
    assert b"No space left" in done.stderr


def test_a_page_a_second_ends_when_nobody_reads() -> None:
    """As behind `head`: quietly, with exit status 0, and without an escape sequence."""
    env = dict(os.environ) | {"TERM": "dumb", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", PROGRAM, "pages"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        lines = [process.stdout.readline() for _ in range(30)]
        assert lines.count(b"\n") >= 1
        assert not any(b"\x1b" in line for line in lines)
        process.stdout.close()
        assert process.wait(20) == 0
        assert process.stderr.read() == b""
