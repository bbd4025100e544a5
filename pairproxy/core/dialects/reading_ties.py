"""What ties a request to the engine that was called: what only this one remembers, may do or can fetch."""

from typing import Final

import msgspec

from pairproxy.core.dialects import routes
from pairproxy.core.dialects.reading_json import Fields, is_nothing, items_of
from pairproxy.core.dialects.reading_prompt import Prompt
from pairproxy.core.dialects.reading_shapes import Tool
from pairproxy.core.models import Dialect
from pairproxy.core.replicas import CLOUD, source_of

TIES: Final = {
    "previous_response_id": "it goes on from a reply that one engine keeps",
    "conversation": "it belongs to a conversation that one engine keeps",
    "context": "it goes on from a context that one engine gave",
    "background": "its reply is fetched later from the engine that has it",
    "integrations": "it uses what is installed on one engine",
    "mcp_servers": "it lets the engine use tools by itself",
    "container": "it uses a container that one engine keeps",
    "id_slot": "it names a slot of one engine",
    "lora": "it names an adapter of one engine",
    "draft_model": "it names a second model of one engine",
}
"""Fields that mean something to one engine only, unless they are empty."""
HOSTED: Final = (
    b"mcp", b"web_search", b"web_fetch", b"file_search", b"code_interpreter", b"code_execution",
    b"image_generation",
)  # fmt: skip
"""How the types of tools begin that the engine uses by itself, with what this machine may do."""

OWN_TOOLS: Final = TIES["mcp_servers"]
FILE: Final = "it names a file that one engine keeps"
FILE_MARK: Final = b'"file_id"'
"""Names such a file, wherever it stands: inside a text its last quote is escaped."""
FETCHES: Final = "it names media that the engine would fetch"
CROWDED: Final = "its prompt has more parts than are looked at"
KEPT: Final = "its reply is kept for a later request"
CLOUD_MODEL: Final = "its model runs in the vendor's cloud, on this machine's account"
LOCAL_MODEL: Final = "its name says that it runs on this machine"

_LMSTUDIO: Final = Dialect.LMSTUDIO
_RESPONSES: Final = Dialect.RESPONSES
_TYING: Final = frozenset(TIES)
_ANY_SLOT: Final = frozenset({b"-1"})


_decode_tool: Final = msgspec.json.Decoder(Tool).decode
_decode_tools: Final = msgspec.json.Decoder(list[Tool]).decode


def tie(dialect: Dialect, fields: Fields, prompt: Prompt, kind: str) -> str | None:
    """Why a body may be served by the called engine only; None if others may. ``kind`` is that engine's."""
    if not _TYING.isdisjoint(fields):
        for key, reason in TIES.items():
            value = fields.get(key)
            if not is_nothing(value) and not (key == "id_slot" and bytes(value or b"") in _ANY_SLOT):
                return reason
    if prompt.is_crowded:
        return CROWDED
    if "tools" in fields and any(map(_is_hosted, _types_of(fields["tools"]))):
        return OWN_TOOLS
    if prompt.is_elsewhere:
        return FETCHES
    return KEPT if _is_kept(dialect, fields, kind) else None


def tie_of_name(name: str) -> str | None:
    """Why a model of this name stays here; None if it may run anywhere."""
    source = source_of(name)
    if source is None:
        return None
    return CLOUD_MODEL if source == CLOUD else LOCAL_MODEL


def _is_kept(dialect: Dialect, fields: Fields, kind: str) -> bool:
    """Whether the engine keeps the reply unless it is told not to."""
    keeps = dialect is _LMSTUDIO or (dialect is _RESPONSES and kind in routes.KEEPING)
    return keeps and ("store" not in fields or bytes(fields["store"]) != b"false")


def _types_of(tools: msgspec.Raw) -> set[bytes]:
    """The types of the tools of a request, as JSON: few, however many tools there are."""
    try:
        return {bytes(tool.type) for tool in _decode_tools(tools)}
    except msgspec.ValidationError:
        return {bytes(tool.type) for item in items_of(tools) if (tool := _tool(item)) is not None}


def _tool(item: msgspec.Raw) -> Tool | None:
    try:
        return _decode_tool(item)
    except msgspec.ValidationError:
        return None


def _is_hosted(kind: bytes) -> bool:
    return kind.removeprefix(b'"').startswith(HOSTED)
