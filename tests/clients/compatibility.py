"""The table of docs/compatibility.md, made from the drivers and the pinned files.

`python -m tests.clients.compatibility` writes it into the page.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from tests.clients.clients import CLIENTS, Client
from tests.clients.environments import HERE

PAGE = HERE.parent.parent / "docs" / "compatibility.md"
START, END = "<!-- clients -->\n", "<!-- /clients -->\n"
HEAD = "| client | version | speaks | calls | asked of |\n|---|---|---|---|---|\n"
SPEAKS = {
    "ollama": "Ollama's API",
    "openai": "OpenAI's API",
    "anthropic": "Anthropic's API",
    "lmstudio": "LM Studio's WebSockets",
}
ASKED_OF = {
    "ollama": "embedded engine; Ollama's bytes",
    "openai": "embedded engine; Ollama's and LM Studio's bytes",
    "anthropic": "embedded engine; Ollama's bytes",
    "lmstudio": "LM Studio's protocol",
}


def versions(directory: Path = HERE) -> dict[str, str]:
    """What is pinned, by package; npm's with ``npm`` before the name."""
    pinned = re.findall(r"^([\w.-]+)==(\S+)", (directory / "requirements.lock").read_text(), re.MULTILINE)
    wanted: dict[str, str] = json.loads((directory / "package.json").read_text())["dependencies"]
    return dict(pinned) | {f"npm {name}": version for name, version in wanted.items()}


def rows() -> Iterator[str]:
    """One for each driver."""
    pinned = versions()
    for client in CLIENTS:
        kind = "npm " if client.is_npm else ""
        names = ", ".join(f"{kind or 'PyPI '}`{name}`" for name in client.packages)
        numbers = ", ".join(pinned[kind + name] for name in client.packages)
        columns = (names, numbers, SPEAKS[client.dialect], _calls(client), ASKED_OF[client.dialect])
        yield f"| {' | '.join(columns)} |"


def _calls(client: Client) -> str:
    return ", ".join(call.replace("_", " ") for call in client.calls)


def table() -> str:
    """The whole of it, between its marks."""
    return START + HEAD + "".join(f"{row}\n" for row in rows()) + END


def main() -> None:
    """Write the table into the page."""
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(START)
    PAGE.write_text(before + table() + rest.partition(END)[2], encoding="utf-8")


if __name__ == "__main__":
    main()
