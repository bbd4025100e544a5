"""PyPI `langchain-ollama`: ChatOllama and OllamaEmbeddings."""

from driving import LONG, MODEL, OLLAMA_ENDLESS, OLLAMA_OPTIONS, QUESTION, TEXTS, TOOL, UNKNOWN, URL
from driving import drive, first_parts, numbers
from langchain_ollama import ChatOllama, OllamaEmbeddings

model = ChatOllama(model=MODEL, base_url=URL)


def whole():
    reply = model.invoke(QUESTION, options=OLLAMA_OPTIONS)
    return [reply.content, reply.response_metadata["done_reason"], reply.usage_metadata["output_tokens"]]


def tools():
    reply = model.bind_tools([TOOL]).invoke(QUESTION, options=OLLAMA_OPTIONS)
    return [reply.content, [[call["name"], call["args"]] for call in reply.tool_calls]]


def abort():
    stream = model.stream(LONG, options=OLLAMA_ENDLESS)
    parts = [part.content for part in first_parts(stream)]
    stream.close()
    return parts


drive(
    chat=whole,
    stream=lambda: [part.content for part in model.stream(QUESTION, options=OLLAMA_OPTIONS)],
    tools=tools,
    embeddings=lambda: numbers(OllamaEmbeddings(model=MODEL, base_url=URL).embed_documents(TEXTS)),
    error=lambda: ChatOllama(model=UNKNOWN, base_url=URL).invoke(QUESTION).content,
    abort=abort,
)
