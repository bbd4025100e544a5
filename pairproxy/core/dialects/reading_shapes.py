"""What a body is decoded into where its shape is known: msgspec's structs, in a module of their own.

A compiled module cannot define one, for their metaclass is interpreted; it can use them.
"""

import msgspec

NOTHING = msgspec.Raw(b"")


class Text(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A message that is text and nothing else, as those of most chats are."""

    role: str
    content: str


class Part(msgspec.Struct):
    """A message, or a part of one: what may hold media, in the words of every dialect."""

    type: msgspec.Raw = NOTHING
    content: msgspec.Raw = NOTHING
    output: msgspec.Raw = NOTHING
    images: msgspec.Raw = NOTHING
    image_url: msgspec.Raw = NOTHING
    source: msgspec.Raw = NOTHING
    data_url: msgspec.Raw = NOTHING
    input_audio: msgspec.Raw = NOTHING
    audio_url: msgspec.Raw = NOTHING
    video_url: msgspec.Raw = NOTHING


class Tool(msgspec.Struct):
    """What a request's tool is, by its type as JSON."""

    type: msgspec.Raw = NOTHING


class CachedPart(msgspec.Struct, gc=False):
    """Of a prompt, in OpenAI's words."""

    cached_tokens: int | float | None = None


class Counts(msgspec.Struct, gc=False):
    """What a reply in OpenAI's words used; what follows the first three some servers write there too."""

    prompt_tokens: int | float | None = None
    completion_tokens: int | float | None = None
    prompt_tokens_details: CachedPart | None = None
    cached_tokens: msgspec.Raw = NOTHING
    time_to_first_token: msgspec.Raw = NOTHING
    generation_time: msgspec.Raw = NOTHING


class Reply(msgspec.Struct, gc=False):
    """A reply that is one document; ``timings`` are llama-server's, ``stats`` LM Studio's."""

    usage: Counts | None = None
    timings: msgspec.Raw = NOTHING
    stats: msgspec.Raw = NOTHING
