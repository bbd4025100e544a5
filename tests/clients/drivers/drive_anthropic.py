"""PyPI `anthropic`: messages, streamed and whole."""

from anthropic import Anthropic
from driving import COLD, ENDLESS, LONG, LONG_TOKENS, MODEL, PARAMETERS, QUESTION, TOKENS, UNKNOWN, URL
from driving import drive, first_parts

client = Anthropic(base_url=URL, api_key="none", max_retries=0)
exact = {
    "model": MODEL,
    "max_tokens": TOKENS,
    "messages": [{"role": "user", "content": QUESTION}],
    "extra_body": {"temperature": 0, "seed": 1, **COLD},
}
TOOL = {"name": "weather", "description": "The weather of a city", "input_schema": PARAMETERS}


def steady(block):
    return {key: value for key, value in block.model_dump(mode="json").items() if key != "id"}


def whole(**more):
    reply = client.messages.create(**exact | more)
    return [[steady(block) for block in reply.content], reply.stop_reason, reply.usage.output_tokens]


def parts(stream):
    for event in stream:
        yield [event.type, getattr(getattr(event, "delta", None), "text", None)]


def stream():
    return list(parts(client.messages.create(stream=True, **exact)))


def text_stream():
    with client.messages.stream(**exact) as streamed:
        return "".join(streamed.text_stream)


def abort():
    long = {"max_tokens": LONG_TOKENS, "messages": [{"role": "user", "content": LONG}]}
    with client.messages.create(stream=True, **exact | long | {"extra_body": ENDLESS}) as streamed:
        return first_parts(parts(streamed))


drive(
    chat=whole,
    stream=stream,
    text_stream=text_stream,
    tools=lambda: whole(tools=[TOOL]),
    error=lambda: whole(model=UNKNOWN),
    abort=abort,
)
