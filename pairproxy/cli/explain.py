"""pairproxy explain: why a request went where it went, what was predicted, and what happened."""

from typing import TYPE_CHECKING, Annotated

import typer

from pairproxy.cli.options import Home, Json, home_or_default, plain
from pairproxy.cli.printing import console, say, show_table

if TYPE_CHECKING:
    from pairproxy.api.schema import AttemptStory, Candidate, Explanation

TERMS = ("wait", "load", "prefill", "decode", "finish", "margin", "affinity", "delay", "chain")
ALWAYS = ("wait", "prefill", "decode", "finish")  # the others are shown where one of the candidates has them
MEANINGS = {
    "finish": "the seconds before it added up",
    "margin": "against what may go wrong, on top",
    "affinity": "against reading again what another place holds, on top",
    "delay": "by which what runs there would end later, on top",
    "chain": "by which the last chain would end later; the least goes before all else",
    "cached": "tokens of the prompt that the place holds",
    "ahead": "requests that run or are planned there, of its slots",
}


def explain(
    request: Annotated[
        str,
        typer.Argument(help="A request's id, the beginning of one, or `last`. `pairproxy report` lists ids."),
    ] = "last",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Show how a request was decided: every candidate, its price in seconds, and what came of it.

    The debug header X-Pairproxy-Request of a reply is the id, too (`debug.headers`).
    A request that still runs or waits is shown as far as it is; `last` is the one that ended last.
    Examples: `pairproxy explain last`, `pairproxy explain 3f2a --json`.
    """
    from pairproxy.api.client import get_explanation

    found = get_explanation(home_or_default(home), request)
    if as_json:
        import msgspec

        typer.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
        return
    out = console()
    for line in head(found):
        say(out, line)
    for attempt in found.attempts:
        out.print()
        say(out, _attempt(found, attempt))
        if attempt.candidates:
            rows = [_row(found, attempt, one) for one in attempt.candidates]
            show_table(out, ("node", "engine", *_terms(attempt), "cached", "ahead"), rows, LEFT)
        for line in outcome(found, attempt):
            say(out, line)
    if terms := [term for attempt in found.attempts if attempt.candidates for term in _terms(attempt)]:
        shown = {*terms, "cached", "ahead"}
        told = [f"{word}: {meaning}" for word, meaning in MEANINGS.items() if word in shown]
        say(out, f"({'; '.join(told)})")


LEFT = frozenset(("node", "engine"))
PICK = "->"  # stands before the node that was picked


OPEN = {"running": "runs now", "waiting": "waits now"}
"""The words that stand for the outcome of a request, or the end of an attempt, that has none yet."""


def head(found: "Explanation") -> list[str]:
    """What it is, how it ended or that it has not, where it belongs."""
    what = f"{plain(found.model)} over {found.dialect} {plain(found.path)}"
    when = f"{found.outcome} {found.ended_s:.2f} s after it came ({found.age_s:.0f} s ago)"
    if found.outcome in OPEN:
        when = f"it came {found.ended_s:.2f} s ago and {OPEN[found.outcome]}"
    lines = [f"{plain(found.request)}: {what}, {when}"]
    belongs = [f"run {plain(found.run)}"] if found.run else []
    belongs += [f"chain {plain(found.chain)}"] if found.chain else []
    belongs += [f"sent by the peer {_name(found, found.origin)}"] if found.origin else []
    if belongs:
        lines.append(", ".join(belongs))
    if found.error:
        lines.append(f"why: {plain(found.error)}")
    if not found.attempts:
        yet = " yet" if found.outcome in OPEN else ""
        lines.append(f"It was sent nowhere{yet}: it spent {found.queue_s:.2f} s in the queue.")
    cached = "" if found.cached_tokens is None else f" ({found.cached_tokens} of them cached)"
    tokens = [] if found.prompt_tokens is None else [f"{found.prompt_tokens} tokens in{cached}"]
    tokens += [] if found.output_tokens is None else [f"{found.output_tokens} tokens out"]
    return [*lines, ", ".join(tokens)] if tokens else lines


def _attempt(found: "Explanation", attempt: "AttemptStory") -> str:
    policy = f" (policy {attempt.policy})" if attempt.policy else ""
    return (
        f"attempt {attempt.number}: to {_name(found, attempt.node)}/{plain(attempt.engine)}"
        f" after {attempt.dispatched_s:.2f} s, because: {plain(attempt.reason)}{policy}"
    )


def _terms(attempt: "AttemptStory") -> list[str]:
    """The parts of the price that matter: those that are always there, and those that any candidate has."""
    return [
        term
        for term in TERMS
        if term in ALWAYS or any(abs(getattr(one, f"{term}_s")) >= 0.005 for one in attempt.candidates)
    ]


def _row(found: "Explanation", attempt: "AttemptStory", one: "Candidate") -> tuple[str, ...]:
    is_pick = (one.node, one.engine) == (attempt.node, attempt.engine)
    return (
        f"{PICK if is_pick else '  '} {_name(found, one.node)}",
        plain(one.engine),
        *(f"{getattr(one, f'{term}_s'):.2f} s" for term in _terms(attempt)),
        str(one.cached_tokens),
        f"{one.in_flight}/{one.slots}",
    )


def outcome(found: "Explanation", attempt: "AttemptStory") -> list[str]:
    """What was predicted and what happened, from the dispatch on."""
    began = attempt.dispatched_s
    lines = []
    if attempt.predicted_end_s is None:
        lines.append("Its candidates are no longer in memory: only the last requests have theirs.")
    for what, predicted_s, real_s in (
        ("first byte", attempt.predicted_first_byte_s, attempt.first_byte_s),
        ("end", attempt.predicted_end_s, attempt.ended_s),
    ):
        told = "not predicted" if predicted_s is None else f"predicted {predicted_s - began:.2f} s"
        came = "never came" if real_s is None else f"came after {real_s - began:.2f} s"
        if attempt.end in OPEN and (what == "end" or real_s is None):
            came = f"not yet after {attempt.ended_s - began:.2f} s"
        lines.append(f"{what}: {told}, {came}")
    if attempt.end in OPEN:
        return lines
    return [*lines, f"it ended: {_end(found, attempt)}"]


def _end(found: "Explanation", attempt: "AttemptStory") -> str:
    after = next((one for one in found.attempts if one.number > attempt.number), None)
    if attempt.end == "broken":
        on = f"the rest was asked of {_name(found, after.node)}" if after else "nobody could go on"
        return f"its node was lost after {attempt.delivered_tokens} tokens; {on}"
    if attempt.end == "truncated":
        return "truncated: its node was lost or broke off, when its client had a part of the reply already"
    if attempt.end != "Moved" or after is None:
        return attempt.end
    return f"moved to {_name(found, after.node)}: taken back, to be done there sooner"


def _name(found: "Explanation", node: str) -> str:
    return plain(found.names.get(node, node[:8]))
