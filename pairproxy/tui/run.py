"""The run that is on, or the last one: how far it is, its waves, its speedup next to the bound."""

from rich.text import Text

from pairproxy.api.schema import RunProgress, Status
from pairproxy.core.accounting.report import RunReport
from pairproxy.tui.cells import gauge, wave_bar
from pairproxy.tui.palette import HEAD, LIMIT, SOFT, Palette
from pairproxy.tui.words import called, counted, lasting, named

LABEL = 9  # columns of the words before a bar
NUMBERS = 38  # columns kept for the numbers behind one


def run_lines(status: Status, width: int, palette: Palette) -> list[Text]:
    """Three lines on the run that is on; two on the last one if none is; none if there was no run.

    Their bars fit into ``width``; names and numbers may be longer.
    """
    run = status.current_run
    if run is not None:
        return _progress(run, width, palette)
    if status.last_run is not None:
        return _last(status.last_run, width, palette)
    return []


def _progress(run: RunProgress, width: int, palette: Palette) -> list[Text]:
    head = _head("run ", run.run, palette)
    head.append(
        f"  {counted(run.requests, 'request')}: {run.ended} ended, {run.running} running, "
        f"{run.waiting} waiting; {lasting(run.age_s)} so far"
    )
    slots = max(run.slots, 1)
    bar = wave_bar(run.waves, run.waves_done, run.running / slots, _bar_columns(width), palette)
    numbers = f"{run.waves_done:.1f} of {counted(run.waves, 'wave')} on {counted(run.slots, 'slot')}"
    return [head, _with_bar("waves", bar, numbers), _speedup(run, width, palette)]


def _speedup(run: RunProgress, width: int, palette: Palette) -> Text:
    bound, what = _bound(run.bound_provable, run.bound_waves)
    if run.speedup is None:
        bar = gauge(0.0, 0.0, _bar_columns(width), palette)
        return _with_bar("speedup", bar, f"not known yet; {what} {bound:.2f}")
    bar = gauge(run.speedup / bound if bound else 0.0, 0.0, _bar_columns(width), palette)
    return _with_bar("speedup", bar, f"{run.speedup:.2f} so far; {what} {bound:.2f}")


def _last(run: RunReport, width: int, palette: Palette) -> list[Text]:
    head = _head("last run ", run.run, palette)
    head.append(
        f"  {counted(run.requests, 'request')} in {run.makespan_s:.1f} s on {counted(run.slots, 'slot')}; "
        "see `pairproxy report`"
    )
    if run.speedup is None:
        return [head]
    bound, what = _bound(run.bound_provable, run.bound_waves)
    bar = gauge(run.speedup / bound if bound else 0.0, 0.0, _bar_columns(width), palette)
    return [head, _with_bar("speedup", bar, f"{run.speedup:.2f}; {what} {bound:.2f}")]


def _head(what: str, run: str, palette: Palette) -> Text:
    return Text().append(what + named(called(run), is_ascii=palette.is_ascii)[:NUMBERS], HEAD)


def _bound(provable: float | None, waves: float) -> tuple[float, str]:
    """The bound to stand beside a speedup, and its name. The waves bound holds for equal nodes only."""
    return (waves, "waves bound") if provable is None else (provable, "provable bound")


def _bar_columns(width: int) -> int:
    return min(max(width - LABEL - NUMBERS - 2, 4), 60)


def _with_bar(label: str, bar: Text, numbers: str) -> Text:
    line = Text().append(f"  {label}".ljust(LABEL) + " ", SOFT)
    return line.append_text(bar).append("  ").append(numbers, LIMIT)
