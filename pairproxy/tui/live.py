"""The page live on a terminal, until q, Ctrl-C, SIGTERM or the terminal's end."""

import contextlib
import errno
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import msgspec
from rich.console import Console, ConsoleDimensions
from rich.live import Live
from rich.text import Text

from pairproxy.tui.feed import Feed, News
from pairproxy.tui.keys import END, has_keys, keyboard
from pairproxy.tui.page import page
from pairproxy.tui.palette import Palette

TICK_S = 0.25  # four pictures a second at most; what the terminal's size became is seen as soon
QUIT = ("q", "Q", END, "\x03")
STOPPING = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
PAGE_S = 1.0  # between two pages
PAGE_COLUMNS, PAGE_LINES = 80, 24  # of a terminal that does not say
GONE = (errno.EPIPE, errno.EIO)  # what a write ends with when the reader or the terminal is gone


class _Asked:
    """What signals asked for since the last look."""

    def __init__(self) -> None:
        self.to_stop = False
        self.to_suspend = False

    def stop(self, number: int, frame: FrameType | None) -> None:
        self.to_stop = True

    def suspend(self, number: int, frame: FrameType | None) -> None:
        self.to_suspend = True


def show_live(console: Console, palette: Palette, feed: Feed) -> None:
    """Show the feed until somebody ends it. The terminal is left as it was, also by Ctrl-Z and after it."""
    asked = _Asked()
    with _signals(asked):
        while not asked.to_stop:
            try:
                _until_asked(console, palette, feed, asked)
            except OSError as error:
                _let_go(error)
                return
            if asked.to_suspend:
                _suspend(asked)


def _until_asked(console: Console, palette: Palette, feed: Feed, asked: _Asked) -> None:
    drawn: object = None
    _measure(console)
    with keyboard() as read, Live(console=console, screen=True, auto_refresh=False) as live:
        while not (asked.to_stop or asked.to_suspend):
            _measure(console)
            now = (feed.news, tuple(console.size), _banner(feed.news))
            if now != drawn:
                live.update(picture(console, palette, feed.news), refresh=True)
                drawn = now
            if read(TICK_S) in QUIT:
                asked.to_stop = True


def _measure(console: Console) -> None:
    """Make it as large as the terminal is; rich would believe COLUMNS and LINES, which do not follow it."""
    with contextlib.suppress(OSError, ValueError):
        columns, lines = os.get_terminal_size(console.file.fileno())
        console.size = ConsoleDimensions(columns or PAGE_COLUMNS, lines or PAGE_LINES)


def picture(console: Console, palette: Palette, news: News) -> Text:
    """The page for the console as large as it is now."""
    width, height = console.size
    keys = "q quits" if has_keys() else "Ctrl-C quits"
    lines = page(news.status, news.status.limit, width, height, palette, banner=_banner(news), keys=keys)
    return joined(lines)


def joined(lines: list[Text]) -> Text:
    """The lines as one text that is not wrapped."""
    text = Text("\n").join(lines)
    text.no_wrap, text.overflow = True, "crop"
    return text


def _banner(news: News) -> str:
    return news.banner(time.monotonic())


@contextmanager
def _signals(asked: _Asked) -> Iterator[None]:
    """Signals ask instead of ending the process in the middle of a picture."""
    before = {}
    for name in (*STOPPING, "SIGTSTP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) != signal.SIG_IGN:
            before[number] = signal.signal(number, asked.suspend if name == "SIGTSTP" else asked.stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _suspend(asked: _Asked) -> None:
    """Stop as Ctrl-Z asks for, now that the terminal is as it was; goes on when the shell says so."""
    asked.to_suspend = False
    number: int | None = getattr(signal, "SIGTSTP", None)
    if number is None:
        return
    ours = signal.signal(number, signal.SIG_DFL)
    with contextlib.suppress(OSError):
        os.kill(os.getpid(), number)
    signal.signal(number, ours)


def show_pages(console: Console, palette: Palette, feed: Feed) -> None:
    """The same where nothing can be drawn over: a page a second, one below another, until a signal comes."""

    def show(news: News) -> None:
        width = console.width
        lines = page(news.status, news.status.limit, width, PAGE_LINES, palette, banner=_banner(news))
        console.print(joined([line for line in lines if line.plain.strip()]))
        console.print()

    _each_second(feed, show)


def show_lines(feed: Feed) -> None:
    """Each status as a line of JSON, at most one a second, until a signal ends it."""
    encode = msgspec.json.Encoder().encode
    shown = -1

    def show(news: News) -> None:
        nonlocal shown
        if news.number != shown:
            sys.stdout.write(encode(news.status).decode() + "\n")
            sys.stdout.flush()
            shown = news.number

    _each_second(feed, show)


def _each_second(feed: Feed, show: Callable[[News], None]) -> None:
    asked = _Asked()
    with _signals(asked):
        while not asked.to_stop:
            try:
                show(feed.news)
            except SystemExit:  # rich's word for a reader that has left
                return
            except OSError as error:
                _let_go(error)
                return
            end = time.monotonic() + PAGE_S
            while not asked.to_stop and time.monotonic() < end:
                time.sleep(TICK_S)


def _let_go(error: OSError) -> None:
    """Nobody takes what is still to be written; it would be tried once more at the end.

    Raises any other error than that the reader or the terminal is gone.
    """
    if error.errno not in GONE:
        raise error
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
