"""PyPI `openai`: chat completions, completions, responses, embeddings and models."""

from driving import COLD, ENDLESS, LONG, LONG_TOKENS, MODEL, QUESTION, TEXTS, TOKENS, TOOL, UNKNOWN, URL
from driving import drive, first_parts, numbers
from openai import OpenAI

client = OpenAI(base_url=f"{URL}/v1", api_key="none", max_retries=0)
asked = [{"role": "user", "content": QUESTION}]
exact = {"model": MODEL, "temperature": 0, "seed": 1, "max_tokens": TOKENS, "extra_body": COLD}


def chat():
    reply = client.chat.completions.create(messages=asked, **exact)
    choice = reply.choices[0]
    return [choice.message.content, choice.finish_reason, reply.usage.completion_tokens]


def streamed(**more):
    stream = client.chat.completions.create(stream=True, stream_options={"include_usage": True}, **more)
    for part in stream:
        choice = part.choices[0] if part.choices else None
        yield [choice and choice.delta.content, choice and choice.finish_reason,
               part.usage and part.usage.completion_tokens]  # fmt: skip


def tools():
    message = client.chat.completions.create(messages=asked, tools=[TOOL], **exact).choices[0].message
    calls = [[call.function.name, call.function.arguments] for call in message.tool_calls or []]
    return {"role": message.role, "content": message.content, "calls": calls}


def responses():
    reply = client.responses.create(
        model=MODEL, input=QUESTION, max_output_tokens=TOKENS, temperature=0, extra_body=COLD
    )
    return [reply.output_text, reply.status]


def responses_stream():
    stream = client.responses.create(
        model=MODEL, input=QUESTION, max_output_tokens=TOKENS, temperature=0, extra_body=COLD, stream=True
    )
    return [[event.type, getattr(event, "delta", None)] for event in stream]


def entry(model):
    told = model.model_dump(mode="json")
    if model.owned_by == "llamacpp":
        del told["created"]  # llama.cpp says now, whenever it is asked
    return told


def abort():
    with client.chat.completions.create(
        messages=[{"role": "user", "content": LONG}],
        stream=True,
        **exact | {"max_tokens": LONG_TOKENS, "extra_body": ENDLESS},
    ) as stream:
        return [part.choices[0].delta.content for part in first_parts(stream)]


drive(
    chat=chat,
    stream=lambda: list(streamed(messages=asked, **exact)),
    completion=lambda: client.completions.create(prompt=QUESTION, **exact).choices[0].text,
    tools=tools,
    responses=responses,
    responses_stream=responses_stream,
    embeddings=lambda: numbers(
        one.embedding for one in client.embeddings.create(model=MODEL, input=TEXTS).data
    ),
    listing=lambda: [entry(model) for model in client.models.list()],
    retrieving=lambda: entry(client.models.retrieve(MODEL)),
    error=lambda: (
        client.chat.completions.create(messages=asked, **exact | {"model": UNKNOWN})
        .choices[0]
        .message.content
    ),
    abort=abort,
)
