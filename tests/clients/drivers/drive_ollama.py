"""PyPI `ollama`: Ollama's own client for Python."""

from driving import LONG, MODEL, OLLAMA_ENDLESS, OLLAMA_OPTIONS, QUESTION, TEXTS, TOOL, UNKNOWN, URL
from driving import drive, first_parts, numbers
from ollama import Client

client = Client(URL)
asked = [{"role": "user", "content": QUESTION}]


def steady(part):
    return [part.message.content, part.done, part.done_reason, part.prompt_eval_count, part.eval_count]


def tools():
    message = client.chat(MODEL, asked, tools=[TOOL], options=OLLAMA_OPTIONS).message
    calls = [[call.function.name, dict(call.function.arguments)] for call in message.tool_calls or []]
    return {"role": message.role, "content": message.content, "calls": calls}


def abort():
    stream = client.chat(MODEL, [{"role": "user", "content": LONG}], stream=True, options=OLLAMA_ENDLESS)
    parts = [steady(part) for part in first_parts(stream)]
    stream.close()
    return parts


drive(
    chat=lambda: steady(client.chat(MODEL, asked, options=OLLAMA_OPTIONS)),
    stream=lambda: [steady(part) for part in client.chat(MODEL, asked, stream=True, options=OLLAMA_OPTIONS)],
    generate=lambda: client.generate(MODEL, QUESTION, options=OLLAMA_OPTIONS).response,
    tools=tools,
    embeddings=lambda: numbers(client.embed(MODEL, TEXTS).embeddings),
    listing=lambda: [model.model_dump(mode="json") for model in client.list().models],
    running=lambda: [model.model_dump(mode="json") for model in client.ps().models],
    showing=lambda: client.show(MODEL).model_dump(mode="json"),
    error=lambda: client.chat(UNKNOWN, asked).message.content,
    abort=abort,
)
