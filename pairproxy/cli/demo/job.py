"""The job: sub-agents with different tasks behind one system prompt, through the official clients."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pairproxy.core.errors import PairproxyError

SYSTEM = (
    "You are one of several sub-agents that an engineer has set to work on the same project. The project is "
    "a small command line program that reads a folder of text files, finds the ten most frequent words and "
    "draws a bar chart of them in the terminal. Answer only the part that you are given. Be concrete, use "
    "short sentences, and do not repeat the task. If something is not known, say what you assume and go on."
)
TASKS = (
    "Write the user story for this program in a few sentences, from the point of view of a teacher.",
    "List the edge cases that the function which splits a text into words has to handle.",
    "Explain how the bar chart should be scaled so that it fits into eighty columns.",
    "Propose the names and the arguments of the functions, with one sentence about each of them.",
    "Describe three tests that you would write first, and say why these three come first.",
)

Progress = Callable[[int, int], None]
"""(which sub-agent, tokens it has so far)"""


@dataclass(frozen=True, slots=True)
class Leg:
    """Where and how a leg runs. ``nonce`` makes its prompts new to every cache."""

    port: int
    model: str
    name: str
    nonce: str
    is_local_only: bool
    tokens: int

    @property
    def headers(self) -> dict[str, str]:
        """What the clients send with every request."""
        local = {"X-Pairproxy-Local": "true"} if self.is_local_only else {}
        return {"X-Pairproxy-Run": self.name} | local

    def messages(self, index: int) -> list[dict[str, str]]:
        """The conversation of one sub-agent."""
        return [
            {"role": "system", "content": f"Job {self.nonce}. {SYSTEM}"},
            {"role": "user", "content": TASKS[index % len(TASKS)]},
        ]


@dataclass(frozen=True, slots=True)
class Answer:
    """What one sub-agent got. Seconds since the leg began."""

    request: str
    client: str
    text: str
    end_s: float


def load_clients() -> None:
    """Import the clients before any leg is timed: that takes up to a second. Raises PairproxyError."""
    try:
        import ollama  # noqa: F401
        import openai  # noqa: F401
    except ImportError:
        raise PairproxyError(
            "The demo needs the official clients: run \"pip install 'pairproxy[demo]'\" and start again."
        ) from None


async def run_leg(leg: Leg, requests: int, progress: Progress) -> tuple[float, list[Answer]]:
    """Send all requests at once; returns the makespan (seconds) and the answers in the order of the tasks."""
    began_at = time.monotonic()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_ask(leg, index, began_at, progress)) for index in range(requests)]
    answers = [task.result() for task in tasks]
    return max(answer.end_s for answer in answers), answers


async def _ask(leg: Leg, index: int, began_at: float, progress: Progress) -> Answer:
    """Ask as one sub-agent; the client's own errors become a sentence without a word of what was said."""
    client, ask = (("ollama", _ask_ollama), ("openai", _ask_openai))[index % 2]
    try:
        return await ask(leg, index, began_at, progress)
    except PairproxyError:
        raise
    except Exception as error:  # noqa: BLE001 - the clients let errors of the HTTP library below them pass
        status = getattr(error, "status_code", None)
        why = f"HTTP {status}" if status and status > 0 else "the connection ended"
        raise PairproxyError(
            f"A sub-agent ({client} client) got no whole answer: {why}. Start the demo again."
        ) from None


async def _ask_ollama(leg: Leg, index: int, began_at: float, progress: Progress) -> Answer:
    import ollama

    request = ""

    async def note(response: Any) -> None:
        nonlocal request
        request = response.headers.get("X-Pairproxy-Request", "")

    client = ollama.AsyncClient(
        f"http://127.0.0.1:{leg.port}", headers=leg.headers, trust_env=False, event_hooks={"response": [note]}
    )
    parts: list[str] = []
    stream = await client.chat(
        model=leg.model,
        messages=leg.messages(index),
        stream=True,
        options={"num_predict": leg.tokens, "temperature": 0, "ignore_eos": True},
    )
    async for part in stream:
        parts.append(part.message.content or "")
        progress(index, len(parts))
    return _answer(request, "ollama", parts, began_at)


async def _ask_openai(leg: Leg, index: int, began_at: float, progress: Progress) -> Answer:
    import openai

    async with openai.AsyncOpenAI(
        base_url=f"http://127.0.0.1:{leg.port}/v1",
        api_key="none",
        default_headers=leg.headers,
        max_retries=0,
        http_client=openai.DefaultAsyncHttpxClient(
            trust_env=False
        ),  # a proxy for the web is not for loopback
    ) as client:
        raw: Any = await client.chat.completions.with_raw_response.create(
            model=leg.model,
            messages=leg.messages(index),  # type: ignore[arg-type]
            stream=True,
            max_tokens=leg.tokens,
            temperature=0,
            extra_body={"ignore_eos": True},
        )
        parts: list[str] = []
        async for part in raw.parse():
            if part.choices and part.choices[0].delta.content:
                parts.append(part.choices[0].delta.content)
                progress(index, len(parts))
    return _answer(raw.headers.get("X-Pairproxy-Request", ""), "openai", parts, began_at)


def _answer(request: str, client: str, parts: list[str], began_at: float) -> Answer:
    text = "".join(parts)
    if not text.strip():
        raise PairproxyError(f"A sub-agent ({client} client) got an empty answer.")
    return Answer(request, client, text, time.monotonic() - began_at)
