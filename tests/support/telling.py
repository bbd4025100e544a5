"""Everything that a daemon tells to who may look, and everything that is written of it, as text."""

import io
import urllib.request
from collections.abc import Iterator

from pairproxy.cli.report_text import lines
from pairproxy.drawing.html import report_html
from pairproxy.drawing.svg import timeline_svg
from pairproxy.history.exporting import FORMATS, Wanted, export
from pairproxy.history.reading import Past
from pairproxy.history.store import FILE
from pairproxy.web.serving import read_page
from tests.support.daemons import Node

PATHS = (
    *read_page(), "/status", "/report", "/report?recording=true", "/report?watched=true", "/requests/last",
    "/runs?limit=20000", "/metrics", "/models", "/advice", "/openapi.json", "/health", "/ready",
)  # fmt: skip
EVENT_BYTES = 1024 * 1024  # of one event at most


def told_by(node: Node) -> Iterator[tuple[str, str]]:
    """(what, its text): all paths of the admin port, the first event, exports, pictures, recordings."""
    admin = f"http://127.0.0.1:{node.file.admin_port}"
    for path in PATHS:
        with urllib.request.urlopen(admin + path, timeout=30) as answer:  # noqa: S310 ours
            yield path, answer.read().decode()
    with urllib.request.urlopen(f"{admin}/events", timeout=30) as answer:  # noqa: S310
        while not (line := answer.readline(EVENT_BYTES)).startswith(b"data:"):
            pass
        yield "/events", line.decode()
    past = Past(node.home / FILE)
    for kind in FORMATS:
        out = io.StringIO()
        export(past, Wanted(), kind, out)
        yield kind, out.getvalue()
    for run in past.runs(0.0, 9999):
        yield "kept", repr(past.report_of(run.number, with_recording=True))  # on disk it is compressed
    last = node.report()
    if last.run is not None:  # a node that only served others has none
        yield "svg", timeline_svg(last)
        yield "html", report_html(last, lines(last, last.run))
