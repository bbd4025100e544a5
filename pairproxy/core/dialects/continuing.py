"""Which requests can go on at another node in the middle of their reply, and what that node is asked.

Plain text only: one reply, no tools, no format that a grammar enforces, no probabilities, no pictures, no
thinking. The rest of a chat is asked for with what was delivered as the beginning of the assistant's message,
the rest of a completion with what was delivered behind its prompt. A request with a field that is not known
here is left alone: what it means for the second half of a reply nobody can tell.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

CHAT, GENERATE = "/api/chat", "/api/generate"
CHAT_COMPLETIONS, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
PATHS = frozenset({CHAT, GENERATE, CHAT_COMPLETIONS, COMPLETIONS})

BODY_BYTES = 4 * 1024 * 1024  # a million tokens, more than a window; it is kept while its reply comes
TEXT_BYTES = 256 * 1024  # of delivered text: some 64,000 tokens, hours on the machines this is for

_SAMPLING = frozenset({
    "temperature", "top_p", "top_k", "min_p", "typical_p", "seed", "stop", "presence_penalty",
    "frequency_penalty", "repeat_penalty", "repetition_penalty", "repeat_last_n", "logit_bias",
})  # fmt: skip
_OPENAI = _SAMPLING | {
    "model", "stream", "stream_options", "max_tokens", "max_completion_tokens", "n_predict", "user",
    "metadata", "cache_prompt", "ignore_eos", "store", "service_tier", "timings_per_token", "min_tokens",
}  # fmt: skip
_OLLAMA = frozenset({"model", "stream", "options", "keep_alive"})
_KNOWN: Mapping[str, frozenset[str]] = {
    CHAT: _OLLAMA | {"messages"},
    GENERATE: _OLLAMA | {"prompt", "system", "raw"},
    CHAT_COMPLETIONS: _OPENAI | {"messages"},
    COMPLETIONS: _OPENAI | {"prompt"},
}
_ONE = frozenset({"n", "best_of"})  # replies
_LIMITS = ("num_predict", "max_tokens", "max_completion_tokens", "n_predict")
_OPTIONS_BARRED = frozenset({"format", "grammar", "logprobs"})
_THOUGHT_MARKS = ("<think>", "</think>", "<|channel|>")
"""Where a model thinks within its text. Chat templates cut that out of messages that they are given."""

GOING_ON = {"add_generation_prompt": False, "continue_final_message": True}
"""What vLLM wants to be told; llama.cpp, Ollama and LM Studio go on with a last message of the assistant."""


@dataclass(frozen=True, slots=True)
class Continuable:
    """A streamed request of plain text. Of its body no more is kept than its bytes, which are there anyway.

    ``limit`` is the tokens that may be written in all (None: as many as the model likes), ``rest_path`` where
    the rest is asked for: a prompt that gets a template cannot end in the middle of a reply.
    """

    path: str
    body: bytes
    limit: int | None
    rest_path: str

    def rest(self, text: str, tokens: int) -> bytes:
        """The body that asks for what comes after ``text``, of which there were so many tokens."""
        fields: dict[str, Any] = msgspec.json.decode(self.body)
        self._lower_limits(fields, tokens)
        if self.rest_path != self.path:
            system = fields.pop("system", None)
            prompt = {"role": "user", "content": fields.pop("prompt", None) or ""}
            fields["messages"] = [*([{"role": "system", "content": system}] if system else []), prompt]
            fields.pop("raw", None)
        if not text:
            return msgspec.json.encode(fields)
        if self.rest_path in (CHAT, CHAT_COMPLETIONS):
            fields["messages"] = [*fields["messages"], {"role": "assistant", "content": text}]
        else:
            fields["prompt"] = _prompt(fields) + text
        if self.rest_path == CHAT_COMPLETIONS:
            fields.update(GOING_ON)
        return msgspec.json.encode(fields)

    def _lower_limits(self, fields: dict[str, Any], tokens: int) -> None:
        if self.limit is not None:
            inner, keys = _limits(self.path, fields)
            inner.update({key: max(self.limit - tokens, 1) for key in keys})


def continuable(path: str, body: bytes) -> Continuable | None:
    """The request, if the rest of its reply can be asked of another node; None: it cannot."""
    if path not in PATHS or len(body) > BODY_BYTES:
        return None
    try:
        fields = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not isinstance(fields, dict) or not all(_is_plain(path, *field) for field in fields.items()):
        return None
    if path in (CHAT, CHAT_COMPLETIONS):
        messages = fields.get("messages")
        if not isinstance(messages, list) or not messages or not all(map(_is_text, messages)):
            return None
        return _made(path, body, fields) if messages[-1]["role"] != "assistant" else None
    is_text = isinstance(_prompt(fields), str) and isinstance(fields.get("system") or "", str)
    return _made(path, body, fields) if is_text else None


def is_plain_text(text: str) -> bool:
    """Whether a text can be given back to a model as its own: not if it thinks in it."""
    return not any(mark in text for mark in _THOUGHT_MARKS)


def _made(path: str, body: bytes, fields: dict[str, Any]) -> Continuable:
    inner, keys = _limits(path, fields)
    limit = min((int(inner[key]) for key in keys), default=None)
    return Continuable(path, body, limit, CHAT if path == GENERATE and not fields.get("raw") else path)


def _limits(path: str, fields: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Where a request says how much may be written, and under which keys; below 1 is no limit."""
    inner = (fields.get("options") or {}) if path in (CHAT, GENERATE) else fields
    given = ((key, inner.get(key)) for key in _LIMITS)
    return inner, [
        key for key, one in given if isinstance(one, int | float) and not isinstance(one, bool) and one >= 1
    ]


def _prompt(fields: Mapping[str, Any]) -> Any:
    prompt = fields.get("prompt")
    return prompt[0] if isinstance(prompt, list) and len(prompt) == 1 else prompt


def _is_plain(path: str, key: str, value: Any) -> bool:
    """Whether a field says nothing that the second half of a reply could not keep to."""
    if not value:
        return True
    if key in _ONE:
        return bool(value == 1)
    if key == "options":
        return isinstance(value, dict) and not any(value.get(one) for one in _OPTIONS_BARRED)
    return key in _KNOWN[path]


def _is_text(message: Any) -> bool:
    """Whether a message is text and nothing else."""
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        return False
    others = [key for key, value in message.items() if value and key not in ("role", "content", "name")]
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    is_text = all(isinstance(part, dict) and part.get("type") == "text" for part in parts)
    return (
        not others and message["role"] != "tool" and (isinstance(content, str) or (bool(parts) and is_text))
    )
