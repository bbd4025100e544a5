"""What signals tell a daemon in the foreground: to stop, or to read its settings anew."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable

Act = Callable[[], object]


def on_signals(stop: Act, reread: Act) -> None:
    """Ctrl-C, a service manager's SIGTERM and a closed terminal stop; SIGHUP from anybody else rereads.

    Call it in the running loop. Windows has no SIGHUP and no loop handlers (untested there).
    """
    for name in ("SIGINT", "SIGTERM"):
        _on(getattr(signal, name), stop)
    if hasattr(signal, "SIGHUP"):
        _on(signal.SIGHUP, _hang_up(stop, reread))


def _hang_up(stop: Act, reread: Act) -> Act:
    """What SIGHUP means: the kernel and the shell send it when the terminal goes, a person to reload.

    Who was started without a terminal, or by nohup, is not ended by one that goes.
    """
    is_nohup = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    had_terminal = has_terminal() and not is_nohup
    return lambda: stop() if had_terminal and not has_terminal() else reread()


def has_terminal() -> bool:
    """Whether this process has a controlling terminal; the kernel takes it away before it sends SIGHUP."""
    with contextlib.suppress(OSError):
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
        return True
    return False


def _on(number: signal.Signals, act: Act) -> None:
    loop = asyncio.get_running_loop()
    try:
        loop.add_signal_handler(number, act)
    except NotImplementedError:
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(act))
