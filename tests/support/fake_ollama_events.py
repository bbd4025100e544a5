"""The events of the two dialects that name them: OpenAI's responses and Anthropic's messages."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any


def response_events(model: str, words: Sequence[str]) -> Iterator[dict[str, Any]]:
    """/v1/responses: from response.created to response.completed, which holds the whole."""
    numbered = iter(range(10**6))

    def event(kind: str, **fields: Any) -> dict[str, Any]:
        return {"type": kind, "sequence_number": next(numbered), **fields}

    text = "".join(words)
    at = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    item = {"id": "msg_1", "type": "message", "role": "assistant"}
    part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    done = part | {"text": text}
    yield event("response.created", response=_response(model, "in_progress", []))
    yield event("response.in_progress", response=_response(model, "in_progress", []))
    started = item | {"status": "in_progress", "content": []}
    yield event("response.output_item.added", output_index=0, item=started)
    yield event("response.content_part.added", **at, part=part)
    for word in words:
        yield event("response.output_text.delta", **at, delta=word, logprobs=[])
    yield event("response.output_text.done", **at, text=text, logprobs=[])
    yield event("response.content_part.done", **at, part=done)
    finished = item | {"status": "completed", "content": [done]}
    yield event("response.output_item.done", output_index=0, item=finished)
    usage: dict[str, Any] = {"input_tokens": 7, "output_tokens": len(words), "total_tokens": 7 + len(words)}
    usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    completed = _response(model, "completed", [finished]) | {"usage": usage}
    yield event("response.completed", response=completed)


def _response(model: str, status: str, output: list[Any]) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1787306400,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "model": model,
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "tool_choice": "auto",
        "tools": [],
        "metadata": {},
    }


@dataclass(frozen=True)
class MessageEvents:
    """/v1/messages: one block of text, or one call of a tool."""

    model: str
    words: Sequence[str]
    call: dict[str, str] | None

    def whole(self) -> dict[str, Any]:
        """The reply to a request that does not stream."""
        usage = {"input_tokens": 7, "output_tokens": len(self.words)}
        return self._message([self._block()]) | {"stop_reason": self._reason(), "usage": usage}

    def stream(self) -> Iterator[dict[str, Any]]:
        """From message_start to message_stop."""
        yield {"type": "message_start", "message": self._message([])}
        empty: dict[str, Any] = {"input": {}} if self.call else {"text": ""}
        yield {"type": "content_block_start", "index": 0, "content_block": self._block() | empty}
        for one in self._deltas():
            yield {"type": "content_block_delta", "index": 0, "delta": one}
        yield {"type": "content_block_stop", "index": 0}
        usage = {"input_tokens": 7, "output_tokens": len(self.words)}
        delta: dict[str, Any] = {"stop_reason": self._reason(), "stop_sequence": None}
        yield {"type": "message_delta", "delta": delta, "usage": usage}
        yield {"type": "message_stop"}

    def _deltas(self) -> Iterator[dict[str, str]]:
        if self.call:
            yield {"type": "input_json_delta", "partial_json": '{"city":"Berlin"}'}
            return
        for word in self.words:
            yield {"type": "text_delta", "text": word}

    def _message(self, content: list[Any]) -> dict[str, Any]:
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": self.model}
        usage = {"input_tokens": 7, "output_tokens": 0}
        return message | {"content": content, "stop_reason": None, "stop_sequence": None, "usage": usage}

    def _block(self) -> dict[str, Any]:
        if self.call:
            return {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": self.call}
        return {"type": "text", "text": "".join(self.words)}

    def _reason(self) -> str:
        return "tool_use" if self.call else "end_turn"
