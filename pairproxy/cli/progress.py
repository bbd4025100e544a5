"""A bar on the terminal for what takes longer than two seconds."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pairproxy.cli.printing import console


@contextmanager
def fetch_progress() -> Iterator[Callable[[int, int], None]]:
    """A callback (bytes done, bytes in all) that draws a bar on a terminal, and nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("fetching the model"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    bar = Progress(*columns, console=console(to_stderr=True), transient=True)
    task = bar.add_task("fetch", total=None)

    def show(done: int, total: int) -> None:
        if not bar.live.is_started and done < total:
            bar.start()
        bar.update(task, completed=done, total=total)
        if done >= total:
            bar.stop()

    try:
        yield show
    finally:
        bar.stop()
