"""The official clients: what each is called, what its driver asks, and how a driver is run."""

import json
import os
import subprocess
from dataclasses import dataclass
from typing import Any, Literal

from tests.clients import environments

RUN_S = 120.0  # of one driver: the slowest take 8 s on two busy cores
SILENCE = {
    # Some would ask the internet or tell it something: a test may not, and waiting for none takes time.
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "LANGSMITH_TRACING": "false",
    "NO_COLOR": "1",
}
PASSED_ON = ("PATH", "HOME", "LANG", "SYSTEMROOT", "TEMP", "TMP")
"""What a driver sees of our surroundings: no proxies, no keys, no hosts of engines."""

Dialect = Literal["ollama", "openai", "anthropic", "lmstudio"]
CHAT = ("chat", "stream", "tools", "error", "abort")


@dataclass(frozen=True)
class Client:
    """One driver: a client of one package, speaking one engine's API."""

    packages: tuple[str, ...]
    driver: str
    dialect: Dialect
    calls: tuple[str, ...]

    @property
    def is_npm(self) -> bool:
        return self.driver.endswith(".mjs")

    @property
    def name(self) -> str:
        return self.driver.removeprefix("drive_").partition(".")[0]


OLLAMA = (*CHAT, "generate", "embeddings", "listing", "running", "showing")
RESPONSES = ("responses", "responses_stream")
SOCKETS = ("chat", "stream", "error", "abort", "listing", "running")
CLIENTS = (
    Client(("ollama",), "drive_ollama.py", "ollama", OLLAMA),
    Client(
        ("openai",),
        "drive_openai.py",
        "openai",
        (*CHAT, "completion", *RESPONSES, "embeddings", "listing", "retrieving"),
    ),
    Client(("anthropic",), "drive_anthropic.py", "anthropic", (*CHAT, "text_stream")),
    Client(("langchain-ollama",), "drive_langchain_ollama.py", "ollama", (*CHAT, "embeddings")),
    Client(("litellm",), "drive_litellm_ollama.py", "ollama", (*CHAT, "embeddings")),
    Client(("litellm",), "drive_litellm_openai.py", "openai", (*CHAT, "embeddings")),
    Client(("pydantic-ai-slim",), "drive_pydantic_ai.py", "openai", (*CHAT, "embeddings")),
    Client(("openai-agents",), "drive_openai_agents.py", "openai", CHAT),
    Client(("smolagents",), "drive_smolagents.py", "openai", CHAT),
    Client(("ollama",), "drive_npm_ollama.mjs", "ollama", OLLAMA),
    Client(
        ("openai",),
        "drive_npm_openai.mjs",
        "openai",
        (*CHAT, *RESPONSES, "embeddings", "listing", "retrieving"),
    ),
    Client(("@anthropic-ai/sdk",), "drive_npm_anthropic.mjs", "anthropic", (*CHAT, "text_stream")),
    Client(("ai", "@ai-sdk/openai-compatible"), "drive_npm_ai.mjs", "openai", (*CHAT, "embeddings")),
    Client(("lmstudio",), "drive_lmstudio.py", "lmstudio", SOCKETS),
    Client(("@lmstudio/sdk",), "drive_npm_lmstudio.mjs", "lmstudio", SOCKETS),
)


def run(client: Client, url: str, model: str) -> dict[str, Any]:
    """Run a driver and return its results by call. Raises CannotPrepare, AssertionError if it crashed."""
    if client.is_npm:
        command = ["node", str(environments.node() / client.driver)]
    else:
        command = [str(environments.python()), str(environments.DRIVERS / client.driver)]
    done = subprocess.run(
        [*command, url, model],
        env={name: os.environ[name] for name in PASSED_ON if name in os.environ} | SILENCE,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_S,
    )
    assert done.returncode == 0, f"{client.driver} crashed:\n{done.stderr[-4000:]}"
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1].replace(url, "URL"))
    return answer


def failed(results: dict[str, Any]) -> set[str]:
    """The calls that raised."""
    return {name for name, result in results.items() if isinstance(result, dict) and "failure" in result}
