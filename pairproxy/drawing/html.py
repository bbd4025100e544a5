"""A run as one HTML file to send to somebody: no script, nothing fetched, light and dark, opens from disk.

Its Content-Security-Policy allows its one style sheet, by its hash, and nothing else: whatever a name in it
may try, nothing runs and nothing is asked of anybody.
"""

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from html import escape

from pairproxy import __version__
from pairproxy.api.schema import Record, Report
from pairproxy.core.accounting.losses import IN_WORDS
from pairproxy.core.accounting.report import RunReport
from pairproxy.core.accounting.verdict import shown
from pairproxy.drawing.rows import SHORT_ID, node_name
from pairproxy.drawing.styles import page_css, picture_css
from pairproxy.drawing.svg import timeline_svg
from pairproxy.tui.words import plain

NODE_TITLES = ("node", "slots", "requests", "tokens in", "tokens out", "busy")
REQUEST_TITLES = (
    "request", "model", "node", "outcome",
    "came at", "waited", "first byte", "ended at", "tokens in", "cached", "tokens out", "attempts",
)  # fmt: skip
TEXT_COLUMNS = 4  # of the requests: those before the numbers


def report_html(report: Report, lines: Sequence[str]) -> str:
    """The whole file. ``lines``: what else is to be said of the run, a sentence each."""
    css = page_css() + picture_css()
    run = report.run
    title = "pairproxy: no run" if run is None else f"pairproxy: run {plain(run.run)}"
    body = "<p>No request has ended yet.</p>" if run is None else "\n".join(_body(report, run, lines))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy(css)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
        f"<title>{_safe(title)}</title>\n<style>{css}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n"
        f"<footer>Written by pairproxy {_safe(__version__)}. No prompt and no reply is in this"
        " file.</footer>\n"
        "</body>\n</html>\n"
    )


LATEST_UNIX = 1e11  # the year 5138: a report from elsewhere may say anything, and calendars end


def policy(css: str) -> str:
    """The Content-Security-Policy of a page with this style sheet and nothing else."""
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def _body(report: Report, run: RunReport, lines: Sequence[str]) -> Iterator[str]:
    yield f"<h1>Run {_safe(run.run)}</h1>"
    if report.started_unix is not None:
        began = datetime.fromtimestamp(min(max(report.started_unix, 0.0), LATEST_UNIX), UTC)
        when = f'<time datetime="{began:%Y-%m-%dT%H:%M:%SZ}">{began:%Y-%m-%d %H:%M:%S} UTC</time>'
        yield f'<p class="soft">began {when}</p>'
    if report.verdict is not None:
        yield (
            f'<dl class="verdict"><dt>What limited it</dt><dd>{_told(report.verdict.limited_by)}</dd>'
            f"<dt>What would change it</dt><dd>{_told(report.verdict.change)}</dd></dl>"
        )
    yield f'<dl class="figures">{"".join(_figures(run))}</dl>'
    yield (
        '<section aria-label="Timeline"><h2>Timeline</h2><div class="wide" tabindex="0" role="group"'
        f' aria-label="Timeline, scrolls sideways">{timeline_svg(report, is_part=True)}</div></section>'
    )
    yield "<h2>Nodes</h2>"
    yield _table(NODE_TITLES, _nodes(report, run), 1)
    yield from _losses(run)
    yield "<h2>In words</h2><ul>" + "".join(f"<li>{_told(line)}</li>" for line in lines) + "</ul>"
    yield f"<details><summary>All {len(report.records)} requests</summary>"
    yield _table(REQUEST_TITLES, (_request(report, one) for one in report.records), TEXT_COLUMNS)
    yield "</details>"


def _figures(run: RunReport) -> Iterator[str]:
    """The numbers that stand large; one that is not known is not there."""
    figures = (
        ("makespan", f"{run.makespan_s:.2f} s"),
        ("requests", str(run.requests)),
        ("speedup", _number(run.speedup)),
        ("waves bound", _number(run.bound_waves if len(run.per_node) > 1 else None)),
        ("provable bound", _number(run.bound_provable)),
        ("efficiency", "" if run.efficiency is None else f"{run.efficiency:.0%}"),
        ("no schedule ends before", "" if run.lower_bound_s is None else f"{run.lower_bound_s:.2f} s"),
    )
    for name, value in figures:
        if value:
            yield f"<div><dt>{name}</dt><dd>{value}</dd></div>"


def _nodes(report: Report, run: RunReport) -> Iterator[tuple[str, ...]]:
    for node, tally in run.per_node.items():
        yield (
            node_name(report, node),
            str(run.node_slots.get(node, "")),
            str(tally.requests),
            str(tally.prompt_tokens),
            str(tally.output_tokens),
            f"{tally.busy_s:.1f} s",
        )


def _losses(run: RunReport) -> Iterator[str]:
    """Where the time beyond the bound went, each cause of it, also those that took none."""
    if run.losses is None or run.lower_bound_s is None:
        return
    yield "<h2>Where the time beyond the bound went</h2>"
    rows = [(IN_WORDS[cause], f"{seconds:.2f} s") for cause, seconds in run.losses.items()]
    avoided_by_none = ("no schedule avoids", f"{run.lower_bound_s:.2f} s")
    whole = ("makespan", f"{run.makespan_s:.2f} s")
    yield _table(("cause", "of the makespan"), [avoided_by_none, *rows, whole], 1)


def _request(report: Report, record: Record) -> tuple[str, ...]:
    told = record.outcome if not record.error else f"{record.outcome}: {record.error}"
    waited_s = (record.ended_s if record.dispatched_s is None else record.dispatched_s) - record.arrived_s
    return (
        record.request[:SHORT_ID],
        record.model,
        "" if record.node is None else node_name(report, record.node),
        told,
        shown(record.arrived_s),
        shown(waited_s),
        "" if record.first_byte_s is None else shown(record.first_byte_s - record.arrived_s),
        shown(record.ended_s),
        *("" if count is None else str(count) for count in _tokens(record)),
        str(record.attempts),
    )


def _tokens(record: Record) -> tuple[int | None, int | None, int | None]:
    return record.prompt_tokens, record.cached_tokens, record.output_tokens


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]], text_columns: int) -> str:
    """The first columns hold text, the others numbers; HTML lets the ends of cells and rows be left out."""
    kinds = [("" if at < text_columns else " class=n") for at in range(len(titles))]
    head = "".join(f"<th scope=col{kind}>{_safe(title)}" for title, kind in zip(titles, kinds, strict=True))
    lines = []
    for row in rows:
        cells = "".join(f"<td{kind}>{_safe(cell)}" for cell, kind in zip(row, kinds, strict=True))
        lines.append(f"<tr>{cells}")
    return f'<div class="wide"><table><thead><tr>{head}<tbody>\n' + "\n".join(lines) + "\n</table></div>"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _safe(text: str) -> str:
    """Text for HTML: whoever named it, it stays text."""
    return escape(plain(text))


def _told(sentence: str) -> str:
    """A sentence; what stands between backticks in it is something to type."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", _safe(sentence))
