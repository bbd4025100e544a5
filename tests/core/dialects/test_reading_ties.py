import json
from typing import Any

import pytest

from pairproxy.core.dialects import reading_ties
from pairproxy.core.dialects.reading_json import KEYS, read_fields
from pairproxy.core.dialects.reading_prompt import Prompt
from pairproxy.core.dialects.reading_ties import TIES, tie, tie_of_name
from pairproxy.core.models import Dialect


def tied(
    dialect: Dialect = Dialect.OPENAI, kind: str = "ollama", *, prompt: Prompt | None = None, **body: Any
) -> str | None:
    """Why this body stays."""
    return tie(dialect, read_fields(json.dumps(body).encode()), prompt or Prompt(), kind)


@pytest.mark.parametrize("key", TIES)
def test_what_one_engine_remembers_stays_with_it(key: str) -> None:
    """Unless it is empty."""
    something: tuple[Any, ...] = ("something", [7])
    nothing: tuple[Any, ...] = (None, "", [], {}, False)
    for value in (*something, *nothing):
        body: dict[str, Any] = {key: value}
        assert tied(**body) == (TIES[key] if value in something else None)
    assert key in KEYS


def test_any_slot_is_no_slot() -> None:
    """llama-server's own default means that it may choose."""
    assert tied(id_slot=-1) is None
    assert tied(id_slot=0) is not None


@pytest.mark.parametrize(
    ("tool", "stays"),
    [
        ({"type": "function", "function": {"name": "mcp"}}, False),
        ({"name": "x", "input_schema": {}}, False),
        ({"type": "custom", "name": "x"}, False), ({"type": "bash_20250124", "name": "bash"}, False),
        ({"type": "mcp", "server_url": "http://x"}, True), ({"type": "web_search_20250305"}, True),
        ({"type": "web_search"}, True), ({"type": "code_interpreter"}, True),
        ("mcp", False), ({"type": 7}, False),
    ],
)  # fmt: skip
def test_tools_that_the_engine_uses_itself_stay(tool: Any, stays: bool) -> None:
    """A tool that the client uses may be asked for by any engine."""
    assert (tied(tools=[{"type": "function"}, tool]) == reading_ties.OWN_TOOLS) is stays


def test_media_at_an_address_stay() -> None:
    """A peer's engine is not sent to fetch things in the peer's network."""
    assert tied(prompt=Prompt(is_elsewhere=True)) == reading_ties.FETCHES


@pytest.mark.parametrize(
    ("dialect", "kind", "kept"),
    [
        (Dialect.LMSTUDIO, "lmstudio", True), (Dialect.RESPONSES, "lmstudio", True),
        (Dialect.RESPONSES, "openai", True), (Dialect.RESPONSES, "ollama", False),
        (Dialect.RESPONSES, "llamacpp", False), (Dialect.RESPONSES, "", False),
        (Dialect.OPENAI, "lmstudio", False),
    ],
)  # fmt: skip
def test_a_reply_that_is_kept_stays_unless_it_need_not_be(dialect: Dialect, kind: str, kept: bool) -> None:
    """Ollama and llama-server keep none."""
    assert (tied(dialect, kind) == reading_ties.KEPT) is kept
    assert (tied(dialect, kind, store=None) is not None) is kept
    assert tied(dialect, kind, store=False) is None


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("m", None),
        ("m:1b", None),
        ("m:cloud", reading_ties.CLOUD_MODEL),
        ("m:local", reading_ties.LOCAL_MODEL),
    ],
)
def test_a_name_may_tie_too(name: str, why: str | None) -> None:
    """By its source suffix."""
    assert tie_of_name(name) == why
