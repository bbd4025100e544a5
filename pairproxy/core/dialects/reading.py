"""Request body -> what choosing a node needs of it. The bytes are forwarded as they came, whatever is read.

1. The body is decoded as far as its coding is known (coding). 2. A form is searched for its model
(reading_form); JSON is taken apart one level deep, and what could be read in two ways is left alone
(reading_json). 3. The prompt is measured (reading_prompt) and hashed (reading_prefix), options are read
(reading_options), and it is looked for what ties a request to the engine that was called (reading_ties).
"""

from dataclasses import replace

import msgspec

from pairproxy.core.dialects import reading_options, reading_ties, routes
from pairproxy.core.dialects.coding import decoded
from pairproxy.core.dialects.keeping import keeping_of
from pairproxy.core.dialects.reading_form import read_form
from pairproxy.core.dialects.reading_json import Ambiguous, Fields, is_nothing, read_fields, text_of
from pairproxy.core.dialects.reading_prefix import prefix_of
from pairproxy.core.dialects.reading_prompt import Prompt, measure
from pairproxy.core.dialects.routes import Inference
from pairproxy.core.models import ModelName, Request, RequestId
from pairproxy.core.replicas import canonical_name

CHARACTERS_PER_TOKEN = 4  # of English text and JSON in the usual vocabularies
AUDIO_BYTES_PER_TOKEN = 320  # 16 kB/s of speech as mp3, at the 50 tokens/s of the usual encoders
NAME_LENGTH = 400  # characters; a name by Ollama's rule has 4 parts of 80 at most

CODING_UNKNOWN = "its body is encoded in a way that is not read here"
UNREADABLE = "its body cannot be read"
AMBIGUOUS = "its body can be read in two ways"
NAMELESS = "it names no model"
NAME_TOO_LONG = "its model's name is too long to be one"


def read(
    request_id: RequestId,
    target: str,
    body: bytes,
    *,
    coding: str = "",
    content_type: str = "",
    kind: str = "",
) -> Request:
    """Read the body of an inference request (``target`` is in routes.INFERENCE); never raises.

    ``coding`` and ``content_type`` are the headers' values, ``kind`` is that of the engine that was called.
    What cannot be read has no model and a reason in ``stays``: only the called engine can say what it means.
    """
    path = routes.path_of(target)
    row = routes.INFERENCE[path]
    request = Request(
        id=request_id,
        model=ModelName(""),
        dialect=row.dialect,
        path=path,
        is_streaming=row.streams,
        prompt_tokens=max(1, len(body) // CHARACTERS_PER_TOKEN),
        max_output_tokens=None if row.has_output else 0,
        coding=coding.strip().lower(),
    )
    plain = decoded(request.coding, body)
    if plain is None:
        return replace(request, stays=CODING_UNKNOWN)
    try:
        if row.is_form:
            return _read_form(request, plain, content_type)
        read = _read_json(request, row, read_fields(plain), kind)
        return replace(read, stays=reading_ties.FILE) if reading_ties.FILE_MARK in plain else read
    except Ambiguous:
        return replace(request, stays=AMBIGUOUS)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return replace(request, stays=UNREADABLE)


def _read_form(request: Request, body: bytes, content_type: str) -> Request:
    form = read_form(body, content_type)
    if form is None:
        return replace(request, stays=UNREADABLE)
    read = replace(
        request,
        is_streaming=form.is_streaming,
        prompt_tokens=max(1, len(body) // AUDIO_BYTES_PER_TOKEN),
        needs=frozenset({"audio"}),
    )
    return _named(read, form.model)


def _read_json(request: Request, row: Inference, fields: Fields, kind: str) -> Request:
    prompt = measure(fields)
    options = reading_options.read(request.dialect, fields)
    keeping = keeping_of(request.path, fields)
    prefix, outline = prefix_of(fields) if row.has_output else ((), None)
    read = replace(
        request,
        is_streaming=reading_options.flag(fields, "stream", row.streams) and row.has_output,
        prompt_tokens=max(1, prompt.text_bytes // CHARACTERS_PER_TOKEN + prompt.media_tokens),
        max_output_tokens=options.limit if row.has_output and not keeping.is_empty else 0,
        runner=options.runner,
        context_tokens=options.context_tokens,
        needs=_needs(row, fields, prompt),
        is_load=keeping.loads,
        unloads=keeping.unloads,
        stays=reading_ties.tie(row.dialect, fields, prompt, kind),
        prefix=prefix,
        outline=outline,
    )
    return _named(read, text_of(fields.get("model")))


def _named(request: Request, name: str | None) -> Request:
    if name is None or not name.strip():
        return replace(request, stays=NAMELESS)
    if len(name) > NAME_LENGTH:
        return replace(request, stays=NAME_TOO_LONG)
    return replace(request, model=canonical_name(name), stays=request.stays or reading_ties.tie_of_name(name))


def _needs(row: Inference, fields: Fields, prompt: Prompt) -> frozenset[str]:
    needs = {row.need} if row.need else set()
    needs |= prompt.needs
    if not is_nothing(fields.get("tools")) or not is_nothing(fields.get("functions")):
        needs.add("tools")
    if not is_nothing(fields.get("suffix")):
        needs.add("insert")
    if row.has_output and reading_options.is_thinking(row.dialect, fields):
        needs.add("thinking")
    return frozenset(needs)
