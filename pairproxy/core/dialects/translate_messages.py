"""Messages and tool calls, both ways.

Ollama's tool calls carry their arguments as an object and are answered by name or in order; OpenAI's
carry them as a JSON string and are answered by id. Ids that are missing are made up, so that every
answer finds its call.
"""

import binascii
import json
from typing import Any

from pairproxy.core.dialects.translate_json import field, objects, write_json
from pairproxy.core.errors import BadRequest

_IMAGE_KINDS = (
    ("iVBORw0KGgo", "image/png"),
    ("R0lGOD", "image/gif"),
    ("UklGR", "image/webp"),
    ("/9j/", "image/jpeg"),
)


class _OpenCalls:
    """The tool calls of the conversation so far that have no answer yet."""

    def __init__(self) -> None:
        self._waiting: list[tuple[str, str]] = []  # (id, function name)
        self._count = 0

    def add(self, given_id: str | None, name: str) -> str:
        call_id = given_id or f"call_{self._count}"
        self._count += 1
        self._waiting.append((call_id, name))
        return call_id

    def answer(self, given_id: str | None, name: str | None) -> str:
        for position, (call_id, call_name) in enumerate(self._waiting):
            if given_id == call_id or (given_id is None and name in (None, call_name)):
                del self._waiting[position]
                return call_id
        return given_id or "call_unknown"


def openai_messages(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Translate ``messages`` of /api/chat. Raises BadRequest."""
    calls = _OpenCalls()
    return [_openai_message(message, calls) for message in objects(body.get("messages"), "messages")]


def user_content(text: str, images: list[Any]) -> str | list[dict[str, Any]]:
    """Text with its base64 images as one OpenAI ``content``. Raises BadRequest.

    Images always become ``data:`` URLs: a client can never make the engine fetch an address.
    """
    if not images:
        return text
    parts: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    return parts + [{"type": "image_url", "image_url": {"url": _data_url(image)}} for image in images]


def openai_tools(body: dict[str, Any]) -> dict[str, Any]:
    """The ``tools`` field, the same in both formats; ``[]`` means none. Raises BadRequest."""
    tools = objects(body.get("tools"), "tools")
    return {"tools": tools} if tools else {}


def ollama_tool_calls(calls: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
    """Translate whole OpenAI tool calls; None if the arguments of one are no JSON object.

    That happens when the model was cut off in the middle of a call.
    """
    out = []
    for index, call in enumerate(calls):
        function = call.get("function") or {}
        try:
            arguments = json.loads(function.get("arguments") or "{}")
        except (ValueError, RecursionError):
            return None
        if not isinstance(arguments, dict):
            return None
        name = function.get("name") or ""
        translated = {"function": {"index": index, "name": name, "arguments": arguments}}
        out.append({"id": call["id"], **translated} if call.get("id") else translated)
    return out


def _openai_message(message: dict[str, Any], calls: _OpenCalls) -> dict[str, Any]:
    role = field(message, "role", str)
    if not role:
        raise BadRequest('every message needs a "role"')
    text = field(message, "content", str) or ""
    images = field(message, "images", list) or []
    out: dict[str, Any] = {"role": role, "content": user_content(text, images)}
    thinking = field(message, "thinking", str)
    if thinking:
        out["reasoning_content"] = thinking
    tool_calls = objects(message.get("tool_calls"), "tool_calls")
    if tool_calls:
        out["tool_calls"] = [_openai_tool_call(call, calls) for call in tool_calls]
    if role == "tool":
        name = field(message, "tool_name", str) or field(message, "name", str)
        out["tool_call_id"] = calls.answer(field(message, "tool_call_id", str), name)
    return out


def _openai_tool_call(call: dict[str, Any], calls: _OpenCalls) -> dict[str, Any]:
    function = field(call, "function", dict)
    name = field(function or {}, "name", str)
    if function is None or not name:
        raise BadRequest('every tool call needs a "function" with a "name"')
    arguments = field(function, "arguments", dict) or {}
    call_id = calls.add(field(call, "id", str), name)
    text = write_json(arguments).decode()
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}


def _data_url(image: object) -> str:
    if not isinstance(image, str):
        raise BadRequest('every entry of "images" must be a base64 string')
    try:
        binascii.a2b_base64(image, strict_mode=True)
    except ValueError:
        raise BadRequest('an entry of "images" is not base64') from None
    kind = next((kind for start, kind in _IMAGE_KINDS if image.startswith(start)), "image/jpeg")
    return f"data:{kind};base64,{image}"
