"""Being asked to end in the middle: a takeover stops at a step and undoes; an undoing is not interrupted."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")  # Ctrl-C, a service manager, a terminal that goes


class Stop:
    """Whether somebody asked for the end."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """Ask for it."""
        self._event.set()

    def is_set(self) -> bool:
        """Whether it was asked for."""
        return self._event.is_set()

    @contextlib.contextmanager
    def on_signals(self) -> Iterator[None]:
        """Within the block signals ask for the end instead of bringing it. For the main thread."""

        def ask(_: int, __: FrameType | None) -> None:
            self.set()

        with _handled(ask):
            yield


@contextlib.contextmanager
def shielded() -> Iterator[None]:
    """Within the block this process and the commands it runs go on whatever is asked; main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # A child inherits what is ignored, so Ctrl-C, which reaches every process of the terminal, does not end
    # `systemctl` in the middle. An engine that it starts must hear SIGTERM later: that is only not acted on.
    with _handled(signal.SIG_IGN, ("SIGINT", "SIGHUP")), _handled(_go_on, ("SIGTERM",)):
        yield


def _go_on(_: int, __: FrameType | None) -> None:
    return


@contextlib.contextmanager
def _handled(handler: object, names: tuple[str, ...] = _NAMES) -> Iterator[None]:
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        for number in numbers:
            signal.signal(number, handler)  # type: ignore[arg-type]  # a function, or what ignores
        yield
    finally:
        for number, old in before.items():
            if old is not None:  # one that was not set from Python cannot be put back
                signal.signal(number, old)
