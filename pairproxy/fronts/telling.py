"""What is said of a front: who has its port, what that means, what to do. One sentence each."""

from pairproxy.api.ports import PortState
from pairproxy.engines.finder import NAMES
from pairproxy.engines.ports import how_to_go_on


def why(state: PortState, kind: str, port: int, holder: str | None, mending: str, *, is_engine: bool) -> str:
    """The sentence of a port; "" for one that is open and as it should be.

    ``is_engine``: the engine that the port stands for has it. ``mending``: what is done about an engine that
    is not where it was moved to.
    """
    if state == "open":
        return mending
    if state == "given":
        return f"Port {port} is left to its engine, as it was asked for."
    if state == "closed":
        return (
            f"Port {port} is closed: no engine answers here, and no paired machine that answers has a model."
        )
    who = holder or "another program"
    if not is_engine:
        return f"Port {port} is held by {who}. {how_to_go_on(kind)}"
    alone = f"Port {port} is held by {who}: what calls it gets this machine's engine alone."
    return f"{alone} {mending or _take(kind)}"


def name_of(kind: str) -> str:
    """An engine of this kind, for a person."""
    return next((name for known, name in NAMES.items() if known == kind), kind)


def _take(kind: str) -> str:
    return f"`pairproxy takeover` moves {name_of(kind)} aside, or says how you can."
