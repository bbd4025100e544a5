"""PyPI `smolagents` with its model class for servers that speak OpenAI's API."""

from driving import COLD, ENDLESS, LONG, LONG_TOKENS, MODEL, QUESTION, TOKENS, UNKNOWN, URL
from driving import drive, first_parts
from smolagents import OpenAIServerModel, tool


@tool
def weather(city: str) -> str:
    """The weather of a city.

    Args:
        city: Its name.
    """
    return f"fine in {city}"


def model(name=MODEL, tokens=TOKENS, extra=COLD):
    return OpenAIServerModel(
        name,
        api_base=f"{URL}/v1",
        api_key="none",
        client_kwargs={"max_retries": 0},
        retry=False,
        temperature=0,
        max_tokens=tokens,
        extra_body=extra,
    )


def asked(question):
    return [{"role": "user", "content": [{"type": "text", "text": question}]}]


def whole(name=MODEL, **more):
    reply = model(name).generate(asked(QUESTION), **more)
    calls = [[call.function.name, call.function.arguments] for call in reply.tool_calls or []]
    return [reply.content, calls, reply.token_usage.output_tokens]


def abort():
    stream = model(tokens=LONG_TOKENS, extra=ENDLESS).generate_stream(asked(LONG))
    parts = [part.content for part in first_parts(stream)]
    stream.close()
    return parts


drive(
    chat=whole,
    stream=lambda: [part.content for part in model().generate_stream(asked(QUESTION))],
    tools=lambda: whole(tools_to_call_from=[weather]),
    error=lambda: whole(name=UNKNOWN),
    abort=abort,
)
