"""The demo on a terminal: what happens while it happens, then the result; or the result as JSON."""

import os
import shlex
import shutil
import sys
from contextlib import ExitStack
from pathlib import Path

import msgspec
from rich.live import Live
from rich.table import Table

from pairproxy.api.results import DemoResult, Reply
from pairproxy.cli.demo.legs import Result
from pairproxy.cli.options import plain
from pairproxy.cli.printing import console, counted
from pairproxy.cli.progress import fetch_progress
from pairproxy.core.models import NodeId


class Screen:
    """Shows progress on standard error and the report on standard output."""

    def __init__(self, is_quiet: bool) -> None:
        self._is_quiet = is_quiet
        self._out = console()
        self._err = console(to_stderr=True)
        self._live: Live | None = None
        self._counts: list[int] = []
        self._title = ""
        self._open = ExitStack()
        self._show_fetch = self._open.enter_context(fetch_progress())

    def fetching(self, done: int, total: int) -> None:
        """The model is being fetched; bytes."""
        self._show_fetch(done, total)

    def starting(self, nodes: int) -> None:
        """The nodes are being started."""
        self._open.close()
        self._say(f"starting {nodes} nodes on this machine")

    def started(self, home: Path, page: str) -> None:
        """They are there: how to look on, from another terminal and in a browser."""
        self._say(f"watch them: {_this_program()} status --watch --home {_quoted(str(home))}")
        self._say(f"        or: {page}")

    def leg(self, round_number: int, rounds: int, is_alone: bool, requests: int) -> None:
        """A leg begins."""
        where = "on node A alone" if is_alone else "on all nodes"
        self._title = f"round {round_number} of {rounds}, {where}"
        self._counts = [0] * requests
        if sys.stderr.isatty() and not self._is_quiet:
            self._live = Live(self._picture(), console=self._err, transient=True, refresh_per_second=8)
            self._live.start()

    def tokens(self, index: int, count: int) -> None:
        """A sub-agent has ``count`` pieces of its answer."""
        self._counts[index] = count
        if self._live is not None:
            self._live.update(self._picture())

    def leg_done(self, makespan_s: float) -> None:
        """The leg is over."""
        self.close()
        self._say(f"{self._title}: {counted(len(self._counts), 'request')} in {makespan_s:.2f} s")

    def close(self) -> None:
        """Give the terminal back as it was, also in the middle of a leg."""
        self._open.close()
        if self._live is not None:
            self._live.stop()
            self._live = None

    def report(self, result: Result) -> None:
        """The result for people."""
        out = self._out
        out.print(_per_node(result))
        for line in result.explanation:
            out.print(line, highlight=False)
        for number, answer in enumerate(result.answers, start=1):
            label = f"sub-agent {number} ({answer.client}): "
            out.print(label + _one_line(answer.text, out.width - len(label)), markup=False, highlight=False)

    def _say(self, line: str) -> None:
        if not self._is_quiet:
            self._err.print(line, markup=False, highlight=False, soft_wrap=True)

    def _picture(self) -> Table:
        table = Table(box=None, title=self._title, title_justify="left", show_header=False)
        for number, count in enumerate(self._counts, start=1):
            table.add_row(
                f"sub-agent {number}", "#" * (count // 2), f"{count} tokens" if count else "waiting"
            )
        return table


def to_json(result: Result) -> str:
    """The result for machines: one document."""
    found = result.comparison
    document = DemoResult(
        nodes=len(result.nodes),
        requests=result.plan.requests,
        engine=result.plan.engine,
        rounds=result.plan.rounds,
        discovered_by=result.discovered_by,
        makespan_alone_s=found.makespan_alone_s,
        makespan_together_s=found.makespan_together_s,
        speedup=found.speedup,
        bound_waves=found.bound_waves,
        bound_provable=found.bound_provable,
        efficiency=found.efficiency,
        efficiency_against=found.efficiency_against,
        why=found.why,
        per_node={result.names.get(node, node): tally for node, tally in found.per_node.items()},
        comparison=found,
        explanation=result.explanation,
        replies=tuple(Reply(answer.client, answer.text) for answer in result.answers),
    )
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


def _per_node(result: Result) -> Table:
    table = Table(box=None, header_style="bold")
    for title in ("node", "requests", "tokens in", "tokens out", "busy"):
        table.add_column(title, justify="left" if title == "node" else "right")
    for node in result.nodes:
        tally = result.comparison.per_node.get(NodeId(node.node))
        cells = (
            (str(tally.requests), str(tally.prompt_tokens), str(tally.output_tokens), f"{tally.busy_s:.2f} s")
            if tally
            else ("0", "0", "0", "0.00 s")
        )
        table.add_row(node.name, *cells)
    return table


def _one_line(text: str, characters: int) -> str:
    line = plain(text)
    return line if len(line) <= characters else line[: characters - 3] + "..."


def _this_program() -> str:
    """How another terminal starts it: a clone that was not installed has it in its .venv only."""
    if shutil.which("pairproxy") is not None:
        return "pairproxy"
    beside = shutil.which("pairproxy", path=str(Path(sys.executable).parent))
    return f"{_quoted(sys.executable)} -m pairproxy" if beside is None else _quoted(beside)


def _quoted(path: str) -> str:
    return f'"{path}"' if os.name == "nt" else shlex.quote(path)
