"""Ollama requests and replies as OpenAI's, for an engine that speaks only the latter.

The entrance to the ``translate_*`` files. Pure: bytes and values in, bytes and values out; the time of
day and durations are handed in. The forwarding path never comes here: only the Ollama face of the
embedded and the paced engine translates.

::

    body -> read_object -> requested_model -> translate_request -> Call
    Call.done_reason set:  immediate_reply                 (load, unload, nothing to embed)
    status 200, streamed:  ReplyStream.feed ... .close     (lines of JSON)
    status 200, whole:     translate_reply
    any other status:      translate_error
"""

from pairproxy.core.dialects.translate_json import read_object, write_json
from pairproxy.core.dialects.translate_reply import immediate_reply, translate_error, translate_reply
from pairproxy.core.dialects.translate_request import Call, Route, requested_model, translate_request
from pairproxy.core.dialects.translate_stream import ReplyStream

__all__ = [
    "Call",
    "ReplyStream",
    "Route",
    "immediate_reply",
    "model_missing",
    "read_object",
    "requested_model",
    "translate_error",
    "translate_reply",
    "translate_request",
    "write_json",
]


def model_missing(path: str, model: str) -> str:
    """The sentence for a model that is not here, as Ollama words it on ``path``."""
    if path in (Route.EMBED, Route.EMBEDDINGS):
        return f'model "{model}" not found, try pulling it first'
    return f"model '{model}' not found"
