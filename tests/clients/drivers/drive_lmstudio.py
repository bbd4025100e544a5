"""PyPI `lmstudio`: LM Studio's own client for Python, which speaks WebSockets."""

from driving import LONG, MODEL, PARTS_BEFORE_LEAVING, QUESTION, TOKENS, UNKNOWN, URL
from driving import drive
from lmstudio import Client

client = Client(URL.removeprefix("http://"))
model = client.llm.model(MODEL)
exact = {"temperature": 0, "maxTokens": TOKENS}


def chat():
    reply = model.respond(QUESTION, config=exact)
    return [reply.content, reply.stats.stop_reason, reply.stats.predicted_tokens_count]


def abort():
    stream = model.respond_stream(LONG)
    parts = []
    for part in stream:
        parts.append(part.content)
        if len(parts) == PARTS_BEFORE_LEAVING:
            stream.cancel()
    return parts[:PARTS_BEFORE_LEAVING]


drive(
    chat=chat,
    stream=lambda: [part.content for part in model.respond_stream(QUESTION, config=exact)],
    listing=lambda: [one.model_key for one in client.list_downloaded_models()],
    running=lambda: [one.identifier for one in client.list_loaded_models("llm")],
    error=lambda: client.llm.model(UNKNOWN).identifier,
    abort=abort,
)
