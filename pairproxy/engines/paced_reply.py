"""What the paced engine reads in a request, and the JSON it answers with: llama.cpp's, field by field."""

import base64
import hashlib
import json
import math
import random
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from pairproxy.core.dialects.translate_json import field, objects
from pairproxy.core.errors import BadRequest
from pairproxy.engines.paced_cache import count_tokens
from pairproxy.engines.paced_gpu import Prefill

CONTEXT_TOKENS = 131072  # prompt and reply together, so that no request runs for ever
DEFAULT_OUTPUT_TOKENS = 128  # when neither the client nor its prompt says how long
EMBEDDING_LENGTH = 64

_LIMIT_KEYS = ("max_tokens", "max_completion_tokens", "n_predict")

_WISHED_LENGTH = re.compile(r"\b(\d{1,6}) tokens\b")
_WORDS = (
    "amber", "basil", "cedar", "delta", "ember", "fjord", "grove", "harbor", "island", "jasmine", "kernel",
    "lagoon", "meadow", "nectar", "orchid", "pepper", "quartz", "river", "saffron", "timber", "umber",
    "violet", "willow", "yonder", "zephyr", "anchor", "bridge", "candle", "dragon", "engine", "falcon",
    "garden",
)  # fmt: skip

_OWN_WORDS = re.compile(rf"(?:{'|'.join(_WORDS)})(?: (?:{'|'.join(_WORDS)}))*\Z")


@dataclass(frozen=True, slots=True)
class Question:
    """One request for text. ``finish_reason`` is how its reply will end."""

    is_chat: bool
    prompt: str
    output_tokens: int
    finish_reason: str
    is_streaming: bool
    has_usage: bool  # a stream ends with a record of usage
    use_cache: bool
    begun: str = ""  # the end of ``prompt`` that holds the beginning of the reply
    said: int = 0  # words in that

    def words(self) -> Iterator[str]:
        """The reply, one token each: the same for the same prompt, another for another."""
        asked = self.prompt[: len(self.prompt) - len(self.begun)]
        seed = hashlib.sha256(asked.encode("utf-8", "surrogatepass")).digest()
        chooser = random.Random(seed)
        for number in range(self.said + self.output_tokens):
            word = ("" if number == 0 else " ") + chooser.choice(_WORDS)
            if number >= self.said:
                yield word

    def pieces(self, size: int) -> Iterator[tuple[str, int]]:
        """The reply in pieces of ``size`` tokens, with the number in each; the first is a single token."""
        words = self.words()
        wanted = 1
        while piece := list(islice(words, wanted)):
            yield "".join(piece), len(piece)
            wanted = size


def read_question(body: dict[str, Any], *, is_chat: bool) -> Question:
    """Read a body of /v1/chat/completions or /v1/completions. Raises BadRequest."""
    prompt, last = _chat_prompt(body) if is_chat else (_plain_prompt(body),) * 2
    begun, said = _begun(body, prompt, is_chat=is_chat)
    limits = (field(body, key, int) for key in _LIMIT_KEYS)
    given = next((limit for limit in limits if limit is not None), -1)
    limit = max(given, 1) if given >= 0 else None  # below 0: none; of 0 llama.cpp makes one token
    wish = _WISHED_LENGTH.search(last)
    wished = max(int(wish[1]) - said, 1) if wish and not field(body, "ignore_eos", bool) else None
    room = CONTEXT_TOKENS - count_tokens(prompt)
    if room <= 0:
        raise BadRequest(f"the prompt exceeds the context size ({CONTEXT_TOKENS} tokens); send a shorter one")
    allowed = min(limit or room, room)
    natural = wished if wished is not None else (allowed if limit else max(DEFAULT_OUTPUT_TOKENS - said, 1))
    is_cut = allowed < natural or (wished is None and bool(limit))
    options = field(body, "stream_options", dict) or {}
    return Question(
        is_chat=is_chat,
        prompt=prompt,
        output_tokens=max(1, min(natural, allowed)),
        finish_reason="length" if is_cut else "stop",
        is_streaming=field(body, "stream", bool) or False,
        has_usage=field(options, "include_usage", bool) or False,
        use_cache=field(body, "cache_prompt", bool) is not False,
        begun=begun,
        said=said,
    )


def chat_text(role: str, content: str) -> str:
    """One message as the engine reads it."""
    return f"<{role}>\n{content}\n"


def timings(read: Prefill, output_tokens: int, decode_s: float, load_s: float) -> dict[str, Any]:
    """llama.cpp's ``timings``; with ``load_ms``, which only this engine has, when the model was loaded."""
    prompt_ms, predicted_ms = read.seconds * 1000, decode_s * 1000
    out = {
        "cache_n": read.cached_tokens,
        "prompt_n": read.new_tokens,
        "prompt_ms": round(prompt_ms, 3),
        "prompt_per_token_ms": prompt_ms / read.new_tokens,
        "prompt_per_second": read.new_tokens / read.seconds if read.seconds else 0.0,
        "predicted_n": output_tokens,
        "predicted_ms": round(predicted_ms, 3),
        "predicted_per_token_ms": predicted_ms / output_tokens,
        "predicted_per_second": output_tokens / decode_s if decode_s else 0.0,
    }
    return {**out, "load_ms": round(load_s * 1000, 3)} if load_s else out


def usage(read: Prefill, output_tokens: int) -> dict[str, Any]:
    """OpenAI's ``usage``."""
    prompt = read.cached_tokens + read.new_tokens
    return {
        "completion_tokens": output_tokens,
        "prompt_tokens": prompt,
        "total_tokens": prompt + output_tokens,
        "prompt_tokens_details": {"cached_tokens": read.cached_tokens},
    }


def choice(question: Question, text: str | None, finish_reason: str | None) -> dict[str, Any]:
    """One choice of a streamed record; ``None`` as text is the first record of a chat or its last."""
    if not question.is_chat:
        return {"text": text or "", "index": 0, "logprobs": None, "finish_reason": finish_reason}
    first = {"role": "assistant", "content": None}
    delta: dict[str, Any] = {"content": text} if text is not None else ({} if finish_reason else first)
    return {"finish_reason": finish_reason, "index": 0, "delta": delta}


def whole_choice(question: Question, text: str) -> dict[str, Any]:
    """The choice of a reply that is not streamed."""
    if not question.is_chat:
        return {"text": text, "index": 0, "logprobs": None, "finish_reason": question.finish_reason}
    message = {"role": "assistant", "content": text}
    return {"finish_reason": question.finish_reason, "index": 0, "message": message}


def embedding_texts(body: dict[str, Any]) -> list[str]:
    """The texts of a body of /v1/embeddings. Raises BadRequest."""
    given = body.get("input")
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise BadRequest('"input" must be a string or a list of strings')
    return texts


def embedding(text: str, *, as_base64: bool) -> list[float] | str:
    """A vector of length 1, the same for the same text."""
    chooser = random.Random(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())
    numbers = [chooser.gauss(0.0, 1.0) for _ in range(EMBEDDING_LENGTH)]
    norm = math.sqrt(sum(number * number for number in numbers))
    vector = [number / norm for number in numbers]
    if not as_base64:
        return vector
    return base64.b64encode(struct.pack(f"<{EMBEDDING_LENGTH}f", *vector)).decode()


def _chat_prompt(body: dict[str, Any]) -> tuple[str, str]:
    """(the whole prompt, the text of its last message)"""
    if not isinstance(body.get("messages"), list):
        raise BadRequest("Expected 'messages' to be an array")
    texts = [
        (str(message.get("role", "user")), _content(message.get("content")))
        for message in objects(body["messages"], "messages")
    ]
    tools = body.get("tools")
    head = chat_text("tools", json.dumps(tools)) if tools else ""
    asked = texts[:-1] if len(texts) > 1 and texts[-1][0] == "assistant" else texts
    return head + "".join(chat_text(role, text) for role, text in texts), asked[-1][1] if asked else ""


def _begun(body: dict[str, Any], prompt: str, *, is_chat: bool) -> tuple[str, int]:
    """The end of a prompt that is the beginning of the reply to what stands before, and its words.

    Like llama.cpp it goes on with a last message of the assistant; a text goes on in its own words.
    """
    if is_chat:
        last = objects(body["messages"], "messages")[-1:]
        text = _content(last[0].get("content")) if last and last[0].get("role") == "assistant" else ""
        return (chat_text("assistant", text), len(text.split())) if text else ("", 0)
    found = _OWN_WORDS.search(prompt)
    return (found[0], len(found[0].split())) if found else ("", 0)


def _plain_prompt(body: dict[str, Any]) -> str:
    prompt = body.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1:
        prompt = prompt[0]
    if not isinstance(prompt, str):
        raise BadRequest('"prompt" must be a string')
    return prompt


def _content(content: object) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(str(part.get("text") or "") for part in objects(content, "content"))
