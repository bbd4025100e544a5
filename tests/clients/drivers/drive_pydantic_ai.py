"""PyPI `pydantic-ai-slim` with its provider for Ollama, which speaks OpenAI's API."""

from driving import COLD, ENDLESS, LONG, LONG_TOKENS, MODEL, PARAMETERS, QUESTION, TEXTS, TOKENS, UNKNOWN, URL
from driving import drive, first_parts, numbers
from pydantic_ai import Embedder, ModelRequest, ToolDefinition
from pydantic_ai.direct import model_request_stream_sync, model_request_sync
from pydantic_ai.embeddings.openai import OpenAIEmbeddingModel
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.ollama import OllamaProvider

provider = OllamaProvider(base_url=f"{URL}/v1")
exact = {"temperature": 0, "seed": 1, "max_tokens": TOKENS, "extra_body": COLD}
tool = ModelRequestParameters(
    function_tools=[
        ToolDefinition(name="weather", description="of a city", parameters_json_schema=PARAMETERS)
    ]
)


def model(name=MODEL):
    return OpenAIChatModel(name, provider=provider)


def whole(name=MODEL, **more):
    asked = [ModelRequest.user_text_prompt(QUESTION)]
    reply = model_request_sync(model(name), asked, model_settings=exact, **more)
    parts = [[part.part_kind, getattr(part, "content", None), getattr(part, "args", None)]
             for part in reply.parts]  # fmt: skip
    return [parts, reply.finish_reason, reply.usage.output_tokens]


def events(question, settings):
    asked = [ModelRequest.user_text_prompt(question)]
    return model_request_stream_sync(model(), asked, model_settings=settings)


def told(event):
    return [event.event_kind, getattr(getattr(event, "delta", None), "content_delta", None)]


def stream():
    with events(QUESTION, exact) as parts:
        return [told(event) for event in parts]


def abort():
    with events(LONG, exact | {"max_tokens": LONG_TOKENS, "extra_body": ENDLESS}) as parts:
        return [told(event) for event in first_parts(parts)]


drive(
    chat=whole,
    stream=stream,
    tools=lambda: whole(model_request_parameters=tool),
    embeddings=lambda: numbers(
        Embedder(OpenAIEmbeddingModel(MODEL, provider=provider)).embed_documents_sync(TEXTS).embeddings
    ),
    error=lambda: whole(name=UNKNOWN),
    abort=abort,
)
