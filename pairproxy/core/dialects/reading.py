"""Request body -> what choosing a node needs of it. The bytes are forwarded as they came, whatever is read.

1. The body is decoded as far as its coding is known (coding). 2. A form is searched for its model
(reading_form); JSON is taken apart one level deep, and what could be read in two ways is left alone
(reading_json). 3. The prompt is measured (reading_prompt) and hashed (reading_prefix), options are read
(reading_options), and it is looked for what ties a request to the engine that was called (reading_ties).
"""

from functools import lru_cache
from typing import Final

import msgspec

from pairproxy.core.dialects import reading_options, reading_ties, routes
from pairproxy.core.dialects.coding import decoded
from pairproxy.core.dialects.keeping import keeping_of
from pairproxy.core.dialects.reading_form import read_form
from pairproxy.core.dialects.reading_json import OTHERS, Ambiguous, Fields, is_nothing, read_fields, text_of
from pairproxy.core.dialects.reading_prefix import prefix_of
from pairproxy.core.dialects.reading_prompt import Prompt, measure
from pairproxy.core.dialects.routes import Inference
from pairproxy.core.models import Dialect, EngineId, ModelName, NodeId, Outline, Request, RequestId
from pairproxy.core.replicas import canonical_name

CHARACTERS_PER_TOKEN: Final = 4  # of English text and JSON in the usual vocabularies
AUDIO_BYTES_PER_TOKEN: Final = 320  # 16 kB/s of speech as mp3, at the 50 tokens/s of the usual encoders
NAME_LENGTH: Final = 400  # characters; a name by Ollama's rule has 4 parts of 80 at most

NO_NEEDS: Final[frozenset[str]] = frozenset()
_NEEDING: Final = frozenset({"tools", "functions", "suffix", *reading_options.THINKING_KEYS})
_PLAIN: Final = OTHERS | {"model", "messages", "stream"}
"""What a chat has that asks for text and nothing else: most do, and no more is looked for in one of them."""
_OPENAI: Final = Dialect.OPENAI
_NO_OPTIONS: Final = reading_options.Options(None)
NAMES_KEPT: Final = 256  # as they are written, with what they mean; of the longest it takes 1 MB

CODING_UNKNOWN: Final = "its body is encoded in a way that is not read here"
UNREADABLE: Final = "its body cannot be read"
AMBIGUOUS: Final = "its body can be read in two ways"
NAMELESS: Final = "it names no model"
NAME_TOO_LONG: Final = "its model's name is too long to be one"


class _Read:
    """What is found in a body: fields of Request."""

    __slots__ = (
        "context_tokens", "is_load", "is_streaming", "max_output_tokens", "model", "needs", "outline",
        "prefix", "prompt_tokens", "runner", "stays", "unloads",
    )  # fmt: skip

    def __init__(
        self,
        model: ModelName,
        is_streaming: bool,
        prompt_tokens: int,
        max_output_tokens: int | None,
        stays: str | None,
        needs: frozenset[str] = NO_NEEDS,
    ) -> None:
        self.model = model
        self.is_streaming = is_streaming
        self.prompt_tokens = prompt_tokens
        self.max_output_tokens = max_output_tokens
        self.stays = stays
        self.needs = needs
        self.runner = ""
        self.context_tokens: int | None = None
        self.is_load = self.unloads = False
        self.prefix: tuple[int, ...] = ()
        self.outline: Outline | None = None


def read(
    request_id: RequestId,
    target: str,
    body: bytes,
    *,
    coding: str = "",
    content_type: str = "",
    kind: str = "",
    stays: str | None = None,
    client: str = "",
    run: str | None = None,
    origin: NodeId | None = None,
    local_only: bool = False,
    engine: EngineId | None = None,
    chain: str = "",
    trace: str = "",
) -> Request:
    """Read the body of an inference request (``target`` is in routes.INFERENCE); never raises.

    ``coding`` and ``content_type`` are the headers' values, ``kind`` is that of the engine that was called,
    ``stays`` a reason why it does whatever its body says; what follows is known beside the body and is taken
    as it is. What cannot be read has no model and a reason in ``stays``: only the called engine can say what
    it means.
    """
    path = routes.path_of(target)
    row = routes.INFERENCE[path]
    coding = coding.strip().lower()
    found = _read(path, row, body, coding, content_type, kind)
    return Request(
        request_id, found.model, row.dialect, path, found.is_streaming, found.prompt_tokens,
        found.max_output_tokens, client, run, origin, local_only, engine, found.runner, found.context_tokens,
        found.needs, found.stays or stays, found.is_load, found.unloads, found.prefix, chain, found.outline,
        coding, None, trace,
    )  # fmt: skip


def _read(path: str, row: Inference, body: bytes, coding: str, content_type: str, kind: str) -> _Read:
    plain = decoded(coding, body)
    if plain is None:
        return _unread(row, body, CODING_UNKNOWN)
    try:
        if row.is_form:
            return _read_form(row, plain, content_type) or _unread(row, body, UNREADABLE)
        return _read_json(path, row, plain, kind)
    except Ambiguous:
        return _unread(row, body, AMBIGUOUS)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _unread(row, body, UNREADABLE)


def _unread(row: Inference, body: bytes, why: str) -> _Read:
    tokens = max(1, len(body) // CHARACTERS_PER_TOKEN)
    return _Read(ModelName(""), row.streams, tokens, None if row.has_output else 0, why)


def _read_form(row: Inference, body: bytes, content_type: str) -> _Read | None:
    form = read_form(body, content_type)
    if form is None:
        return None
    model, stays = _named(form.model)
    tokens = max(1, len(body) // AUDIO_BYTES_PER_TOKEN)
    most = None if row.has_output else 0
    return _Read(model, form.is_streaming, tokens, most, stays, frozenset({"audio"}))


def _read_json(path: str, row: Inference, body: bytes, kind: str) -> _Read:
    fields = read_fields(body)
    prompt = measure(fields)
    is_plain = row.dialect is _OPENAI and prompt.texts is not None and _PLAIN.issuperset(fields)
    options = _NO_OPTIONS if is_plain else reading_options.read(row.dialect, fields)
    keeping = keeping_of(path, fields)
    tie = None if is_plain else reading_ties.tie(row.dialect, fields, prompt, kind)
    model, stays = _named(text_of(fields.get("model")), tie)
    # "in" takes four times as long to find nothing
    has_file = not is_plain and body.rfind(reading_ties.FILE_MARK) >= 0
    found = _Read(
        model,
        reading_options.flag(fields, "stream", row.streams) and row.has_output,
        max(1, prompt.text_bytes // CHARACTERS_PER_TOKEN + prompt.media_tokens),
        options.limit if row.has_output and not keeping.is_empty else 0,
        reading_ties.FILE if has_file else stays,
        NO_NEEDS if is_plain and not row.need else _needs(row, fields, prompt),
    )
    found.runner, found.context_tokens = options.runner, options.context_tokens
    found.is_load, found.unloads = keeping.loads, keeping.unloads
    if row.has_output:
        found.prefix, found.outline = prefix_of(fields, prompt.texts)
    return found


def _named(name: str | None, tie: str | None = None) -> tuple[ModelName, str | None]:
    """The model of this name, and why a request for it stays; ``tie`` is why it does whatever the name."""
    if name is None or not name.strip():
        return ModelName(""), NAMELESS
    if len(name) > NAME_LENGTH:
        return ModelName(""), NAME_TOO_LONG
    model, source = _known(name)
    return model, tie or source


@lru_cache(NAMES_KEPT)
def _known(name: str) -> tuple[ModelName, str | None]:
    return canonical_name(name), reading_ties.tie_of_name(name)


def _needs(row: Inference, fields: Fields, prompt: Prompt) -> frozenset[str]:
    needs = prompt.needs
    if row.need:
        needs.add(row.need)
    if _NEEDING.isdisjoint(fields):
        return frozenset(needs) if needs else NO_NEEDS
    if not is_nothing(fields.get("tools")) or not is_nothing(fields.get("functions")):
        needs.add("tools")
    if not is_nothing(fields.get("suffix")):
        needs.add("insert")
    if row.has_output and reading_options.is_thinking(row.dialect, fields):
        needs.add("thinking")
    return frozenset(needs) if needs else NO_NEEDS
