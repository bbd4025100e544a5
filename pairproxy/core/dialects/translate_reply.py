"""OpenAI replies as Ollama replies: whole ones, streams and errors.

Durations become nanoseconds, fields that would be 0 are left out, and ``prompt_eval_count`` counts the
cached part of the prompt while ``prompt_eval_duration`` does not: all as Ollama does it.
"""

import json
import math
from typing import Any

from pairproxy.core.dialects.translate_json import write_json
from pairproxy.core.dialects.translate_messages import ollama_tool_calls
from pairproxy.core.dialects.translate_request import EMBEDDING_PATH, Call, Route
from pairproxy.core.errors import BadRequest, BrokenReply

_NS_PER_S = 1e9
_NS_PER_MS = 1e6
_NOT_IMPLEMENTED = 501

MALFORMED = (ValueError, LookupError, TypeError, AttributeError, RecursionError, BadRequest)
"""What reading and rewriting a reply of another shape than OpenAI's raises."""


def immediate_reply(call: Call, created_at: str, elapsed_s: float) -> bytes:
    """The answer to a call that asks the model nothing: loading, unloading, no text to embed."""
    if call.route is Route.EMBED:
        return write_json({"model": call.model, "embeddings": [], "total_duration": _ns(elapsed_s)})
    if call.route is Route.EMBEDDINGS:
        return write_json({"embedding": []})
    record = content_record(call, created_at, {"content": ""})
    return write_json({**record, "done": True, "done_reason": call.done_reason})


def translate_reply(call: Call, reply: bytes, created_at: str, elapsed_s: float) -> bytes:
    """Translate a whole reply (status 200). ``created_at`` is RFC 3339. Raises BrokenReply."""
    try:
        value = json.loads(reply)
        if call.route in (Route.EMBED, Route.EMBEDDINGS):
            return write_json(_embedding_reply(call, value, elapsed_s))
        choice = value["choices"][0]
        message = choice.get("message") or {"content": choice.get("text")}
        timings, usage = value.get("timings") or {}, value.get("usage") or {}
        record = content_record(call, created_at, whole_message(message), choice.get("logprobs"))
        return write_json({**record, **final_fields(choice.get("finish_reason"), timings, usage, elapsed_s)})
    except MALFORMED:
        raise BrokenReply("the engine's reply is not an OpenAI reply; look at its log") from None


def translate_error(call: Call, reply: bytes, status: int) -> bytes:
    """Translate an OpenAI error body to ``{"error": "text"}``; the status stays as it is."""
    if status == _NOT_IMPLEMENTED and call.path == EMBEDDING_PATH:  # llama.cpp would name a flag of its own
        return write_json({"error": f'"{call.model}" does not support embeddings'})
    text = f"the engine answered with status {status}"
    try:
        value = json.loads(reply)
        text = error_text(value) or text
    except (ValueError, RecursionError):
        pass
    return write_json({"error": text})


def error_text(value: object) -> str | None:
    """The sentence in an OpenAI error object, None if ``value`` is none."""
    error = value.get("error") if isinstance(value, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    return message if isinstance(message, str) and message else None


def content_record(
    call: Call, created_at: str, message: dict[str, Any], logprobs: dict[str, Any] | None = None
) -> dict[str, Any]:
    """One record with a piece of the reply; ``message`` has content, thinking and tool_calls as given."""
    record: dict[str, Any] = {"model": call.model, "created_at": created_at}
    if call.route is Route.CHAT:
        record["message"] = {"role": "assistant", **message}
    else:
        record["response"] = message["content"]
        if "thinking" in message:
            record["thinking"] = message["thinking"]
    record["done"] = False
    if logprobs and logprobs.get("content"):
        record["logprobs"] = [_logprob(entry) for entry in logprobs["content"]]
    return record


def whole_message(message: dict[str, Any]) -> dict[str, Any]:
    """An OpenAI message or delta as the fields of Ollama's. A call that was cut off becomes content."""
    out: dict[str, Any] = {"content": message.get("content") or ""}
    if message.get("reasoning_content"):
        out["thinking"] = message["reasoning_content"]
    calls = message.get("tool_calls")
    if calls:
        translated = ollama_tool_calls(calls)
        if translated is None:
            out["content"] += "".join(call["function"].get("arguments") or "" for call in calls)
        else:
            out["tool_calls"] = translated
    return out


def final_fields(
    finish_reason: str | None, timings: dict[str, Any], usage: dict[str, Any], elapsed_s: float
) -> dict[str, Any]:
    """The fields of the record that ends a reply, from llama.cpp's timings or else OpenAI's usage."""
    has_timings = "prompt_n" in timings
    prompt = timings.get("cache_n", 0) + timings["prompt_n"] if has_timings else usage.get("prompt_tokens", 0)
    fields = {
        "total_duration": _ns(elapsed_s),
        "load_duration": round(timings.get("load_ms", 0) * _NS_PER_MS),
        "prompt_eval_count": prompt,
        "prompt_eval_duration": round(timings.get("prompt_ms", 0) * _NS_PER_MS),
        "eval_count": timings.get("predicted_n", usage.get("completion_tokens", 0)),
        "eval_duration": round(timings.get("predicted_ms", 0) * _NS_PER_MS),
    }
    reason = "length" if finish_reason == "length" else "stop"
    return {"done": True, "done_reason": reason, **{key: value for key, value in fields.items() if value}}


def _embedding_reply(call: Call, value: dict[str, Any], elapsed_s: float) -> dict[str, Any]:
    entries = sorted(value["data"], key=lambda entry: entry["index"])
    vectors = [_cut(entry["embedding"], call.dimensions) for entry in entries]
    if call.route is Route.EMBEDDINGS:
        return {"embedding": vectors[0]}
    fields = {"total_duration": _ns(elapsed_s), "prompt_eval_count": value["usage"]["prompt_tokens"]}
    counts = {key: count for key, count in fields.items() if count}
    return {"model": call.model, "embeddings": vectors, **counts}


def _cut(vector: list[float], dimensions: int | None) -> list[float]:
    if dimensions is None or dimensions >= len(vector):
        return vector
    short = vector[:dimensions]
    norm = math.sqrt(sum(number * number for number in short))
    return [number / norm for number in short] if norm else short


def _logprob(entry: dict[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {key: entry[key] for key in ("token", "logprob", "bytes") if key in entry}
    if entry.get("top_logprobs"):
        out["top_logprobs"] = [_logprob(other) for other in entry["top_logprobs"]]
    return out


def _ns(seconds: float) -> int:
    return round(seconds * _NS_PER_S)
