"""One Ollama request as the OpenAI request that llama.cpp's server answers."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pairproxy.core.dialects.ollama_catalogue import ModelCard
from pairproxy.core.dialects.translate_json import field, objects, write_json
from pairproxy.core.dialects.translate_messages import openai_messages, openai_tools, user_content
from pairproxy.core.dialects.translate_options import json_schema, response_format, sampling
from pairproxy.core.errors import BadRequest

CHAT_PATH = "/v1/chat/completions"
COMPLETION_PATH = "/v1/completions"
EMBEDDING_PATH = "/v1/embeddings"

_ZERO_DURATION = re.compile(r"[+-]?(?:0+(?:\.0*)?|(?:0+(?:\.0*)?(?:ns|us|µs|ms|s|m|h))+)")
_FILLED_CHARACTERS = 2**24  # of a prompt in its template, which may name it often: more than any window
_TOP_LOGPROBS_LIMIT = 20  # as Ollama has it


class Route(StrEnum):
    """The Ollama routes that make the model work."""

    CHAT = "/api/chat"
    GENERATE = "/api/generate"
    EMBED = "/api/embed"
    EMBEDDINGS = "/api/embeddings"


@dataclass(frozen=True, slots=True)
class Call:
    """What to ask the OpenAI server, or what to answer at once.

    ``model`` is the name exactly as the client wrote it: replies echo it. ``done_reason`` is "load" or
    "unload" when there is nothing to ask (``path`` is then empty); ``is_streaming`` says how the client
    wants its reply; ``dimensions`` is the length it wants its embeddings cut to.
    """

    route: Route
    model: str
    path: str
    body: bytes
    is_streaming: bool
    done_reason: str | None = None
    dimensions: int | None = None


def requested_model(body: dict[str, Any]) -> str:
    """The model a request names, as it is written there. Raises BadRequest when it names none."""
    name = field(body, "model", str) or field(body, "name", str)  # show and old clients say "name"
    if name is None or not name.strip():
        raise BadRequest("model is required")
    return name


def translate_request(route: Route, body: dict[str, Any], card: ModelCard) -> Call:
    """Translate a request for the model of ``card``. Raises BadRequest."""
    if route in (Route.EMBED, Route.EMBEDDINGS):
        return _embedding_call(route, body, card)
    is_chat = route is Route.CHAT
    stream = field(body, "stream", bool)
    nothing_to_say = not (
        objects(body.get("messages"), "messages") if is_chat else field(body, "prompt", str)
    )
    path, question = ("", {}) if nothing_to_say else (_chat if is_chat else _generate)(body, card)
    return Call(
        route=route,
        model=requested_model(body),
        path=path,
        body=write_json({**question, **_streaming(stream)}) if path else b"",
        is_streaming=stream is not False,  # absent means yes on /api
        done_reason=None if path else _load_or_unload(body),
    )


def _chat(body: dict[str, Any], card: ModelCard) -> tuple[str, dict[str, Any]]:
    tools = openai_tools(body)
    if tools:
        _require("tools", body, card)
    messages = openai_messages(body)
    if any(isinstance(message["content"], list) for message in messages):
        _require("vision", body, card)
    shared = {**sampling(body), **response_format(body), **tools, **_thinking(body, card), **_logprobs(body)}
    return CHAT_PATH, {"model": card.name, "messages": messages, **shared}


def _generate(body: dict[str, Any], card: ModelCard) -> tuple[str, dict[str, Any]]:
    prompt, system = field(body, "prompt", str) or "", field(body, "system", str) or ""
    template, suffix = field(body, "template", str), field(body, "suffix", str)
    images = field(body, "images", list) or []
    is_raw = field(body, "raw", bool) or False
    if is_raw and (template or system):
        raise BadRequest("a raw prompt takes no template and no system text; leave them out or drop raw")
    if images:
        _require("vision", body, card)
    if is_raw or template or suffix:
        if images:
            raise BadRequest("images need the model's own template; leave out raw, template and suffix")
        text = _fill(template, system, prompt) if template else prompt
        return COMPLETION_PATH, _completion(text, suffix, body, card)
    messages = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": user_content(prompt, images)})  # type: ignore[dict-item]
    shared = {**sampling(body), **response_format(body), **_thinking(body, card), **_logprobs(body)}
    return CHAT_PATH, {"model": card.name, "messages": messages, **shared}


def _completion(text: str, suffix: str | None, body: dict[str, Any], card: ModelCard) -> dict[str, Any]:
    out = {"model": card.name, "prompt": text, **sampling(body), **json_schema(body)}
    if suffix:
        _require("insert", body, card)
        out["suffix"] = suffix
    wanted = _logprobs(body)
    if wanted:
        out["logprobs"] = wanted["top_logprobs"]
    return out


def _fill(template: str, system: str, prompt: str) -> str:
    """The part of Ollama's templates that needs no template language: named fields and plain text."""
    values = {".System": system, ".Prompt": prompt, ".Response": ""}

    pieces, size, at = [], 0, 0
    while (start := template.find("{{", at)) >= 0 and (end := template.find("}}", start + 2)) >= 0:
        name = template[start + 2 : end].removeprefix("-").removesuffix("-").strip()
        if name not in values:
            raise BadRequest(
                "this engine fills only {{ .System }}, {{ .Prompt }} and {{ .Response }} into a template; "
                "leave template out to use the model's own"
            )
        pieces += [template[at:start], values[name]]
        size += start - at + len(values[name])
        if size > _FILLED_CHARACTERS:
            raise BadRequest("the template makes the prompt longer than any model reads; name it once")
        at = end + 2
    return "".join([*pieces, template[at:]])


def _thinking(body: dict[str, Any], card: ModelCard) -> dict[str, Any]:
    think = body.get("think")
    if think is None or think == "":
        return {}
    if not isinstance(think, bool | str):
        raise BadRequest('"think" must be true, false or a level such as "low"')
    if think:
        _require("thinking", body, card)
    elif "thinking" not in card.capabilities:
        return {}
    wanted: dict[str, Any] = {"enable_thinking": bool(think)}
    if isinstance(think, str):
        wanted["reasoning_effort"] = think
    return {"chat_template_kwargs": wanted}


def _logprobs(body: dict[str, Any]) -> dict[str, Any]:
    top = field(body, "top_logprobs", int) or 0
    if not 0 <= top <= _TOP_LOGPROBS_LIMIT:
        raise BadRequest(f'"top_logprobs" must be between 0 and {_TOP_LOGPROBS_LIMIT}')
    return {"logprobs": True, "top_logprobs": max(top, 1)} if field(body, "logprobs", bool) else {}


def _streaming(stream: bool | None) -> dict[str, Any]:
    if stream is False:
        return {"stream": False}
    return {"stream": True, "stream_options": {"include_usage": True}}


def _require(capability: str, body: dict[str, Any], card: ModelCard) -> None:
    if capability not in card.capabilities:
        raise BadRequest(f'"{requested_model(body)}" does not support {capability}')


def _load_or_unload(body: dict[str, Any]) -> str:
    keep_alive = body.get("keep_alive")
    if isinstance(keep_alive, str):
        return "unload" if _ZERO_DURATION.fullmatch(keep_alive.strip()) else "load"
    if keep_alive is not None and (isinstance(keep_alive, bool) or not isinstance(keep_alive, int | float)):
        raise BadRequest('"keep_alive" must be seconds or a duration such as "5m"')
    return "unload" if keep_alive == 0 else "load"


def _embedding_call(route: Route, body: dict[str, Any], card: ModelCard) -> Call:
    model = requested_model(body)
    texts = body.get("input") if route is Route.EMBED else field(body, "prompt", str)
    texts = [texts] if isinstance(texts, str) else texts or []
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise BadRequest('"input" must be a string or a list of strings')
    if route is Route.EMBEDDINGS:
        texts = [text for text in texts if text]
    dimensions = field(body, "dimensions", int)
    if dimensions is not None and dimensions < 0:
        raise BadRequest('"dimensions" must not be negative')
    question = write_json({"model": card.name, "input": texts, "encoding_format": "float"})
    return Call(
        route=route,
        model=model,
        path=EMBEDDING_PATH if texts else "",
        body=question if texts else b"",
        is_streaming=False,
        done_reason=None if texts else "load",
        dimensions=dimensions or None,
    )
