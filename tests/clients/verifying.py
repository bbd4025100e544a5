"""What scripts/verify-real does: every driver that fits, directly and through a daemon before the engine."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.clients.clients import CLIENTS, Client, failed, run
from tests.clients.environments import CannotPrepare
from tests.clients.scenes import settings_for
from tests.support.daemons import Daemons

DIALECTS: Mapping[str, tuple[str, ...]] = {
    "ollama": ("ollama", "openai", "anthropic"),
    "lmstudio": ("openai", "anthropic", "lmstudio"),
    "llamacpp": ("openai", "anthropic"),
    "openai": ("openai",),
}
"""Which clients are asked of which kind of engine."""

HAVE_WORDS = frozenset(
    "chat stream generate tools completion text_stream abort responses responses_stream".split()  # noqa: SIM905
)
TOLD = 600  # characters of a result that differs


def shape(result: Any) -> Any:
    """A result without its words: a model on a GPU may say the same thing in others."""
    match result:
        case dict():
            return {key: shape(value) for key, value in result.items()}
        case list():
            shapes = [shape(value) for value in result]
            return [one for at, one in enumerate(shapes) if at == 0 or one != shapes[at - 1]]
        case None:
            return "text"  # some engines say null where there is no text yet
    return type(result).__name__.replace("str", "text")


def differences(directly: Mapping[str, Any], through: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """(calls that differ, calls whose words differ and nothing else)."""
    differing: list[str] = []
    in_words: list[str] = []
    for call in sorted(directly.keys() | through.keys()):
        one, other = directly.get(call), through.get(call)
        if one == other:
            continue
        is_reply = call in HAVE_WORDS and call in directly and call in through
        has_failed = call in failed(dict(directly)) or call in failed(dict(through))
        (in_words if is_reply and not has_failed and shape(one) == shape(other) else differing).append(call)
    return differing, in_words


def verify(url: str, model: str, kind: str, only: frozenset[str] | None, directory: Path) -> int:
    """Run the drivers, print a table; returns the exit status (0 equal, 1 different, 2 not tried)."""
    console = Console()
    table = Table("client", "same", "same but for the words", "refused by the engine", "different")
    details: list[str] = []
    chosen = [one for one in CLIENTS if one.dialect in DIALECTS[kind] and (not only or one.name in only)]
    if not chosen:
        console.print(f"No client is left; known: {', '.join(one.name for one in CLIENTS)}.")
        return 2
    with Daemons(directory) as daemons:
        daemons.home("verify", settings_for({"kind": kind, "url": url.rstrip("/"), "listen": "127.0.0.1:0"}))
        (node,) = daemons.start("verify")
        daemons.until_connected()
        for client in chosen:
            try:
                directly = run(client, url.rstrip("/"), model)
                through = run(client, f"http://127.0.0.1:{node.port}", model)
            except (CannotPrepare, AssertionError) as error:
                details.append(f"{client.name} could not be tried: {error}")
                continue
            table.add_row(client.name, *_row(client, directly, through, details))
    console.print(table)
    for text in details:
        console.print(text, markup=False)
    return 1 if details else 0


def _row(client: Client, directly: dict[str, Any], through: dict[str, Any], details: list[str]) -> list[str]:
    differing, in_words = differences(directly, through)
    refused = sorted(failed(directly) - {"error"})
    for call in differing:
        told = (
            f"  {side} {str(results.get(call))[:TOLD]}"
            for side, results in (("directly", directly), ("through ", through))
        )
        details.append("\n".join([f"{client.name} {call}:", *told]))
    same = len(directly) - len(differing) - len(in_words)
    return [str(same), ", ".join(in_words), ", ".join(refused), ", ".join(differing)]
