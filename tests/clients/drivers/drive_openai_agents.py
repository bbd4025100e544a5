"""PyPI `openai-agents` with its model class for chat completions."""

import asyncio

from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from driving import (
    COLD,
    ENDLESS,
    LONG,
    LONG_TOKENS,
    MODEL,
    PARTS_BEFORE_LEAVING,
    QUESTION,
    TOKENS,
    UNKNOWN,
    URL,
)
from driving import drive
from openai import AsyncOpenAI

set_tracing_disabled(True)
settings = ModelSettings(temperature=0, max_tokens=TOKENS, extra_body={"seed": 1, **COLD}, include_usage=True)


@function_tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"fine in {city}"


def agent(name=MODEL, **more):
    client = AsyncOpenAI(base_url=f"{URL}/v1", api_key="none", max_retries=0)
    model = OpenAIChatCompletionsModel(name, client)
    return Agent(name="guide", model=model, **{"model_settings": settings, **more})


def whole(**more):
    result = Runner.run_sync(agent(**more), QUESTION, max_turns=1)
    return [result.final_output, [item.type for item in result.new_items]]


def deltas(question, limit=None, **more):
    async def read():
        result = Runner.run_streamed(agent(**more), question, max_turns=1)
        found = []
        async for event in result.stream_events():
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                found.append(event.data.delta)
            if len(found) == limit:
                result.cancel()
                break
        return found

    return asyncio.run(read())


drive(
    chat=whole,
    stream=lambda: deltas(QUESTION),
    tools=lambda: whole(tools=[weather], tool_use_behavior="stop_on_first_tool"),
    error=lambda: whole(name=UNKNOWN),
    abort=lambda: deltas(
        LONG,
        PARTS_BEFORE_LEAVING,
        model_settings=ModelSettings(temperature=0, max_tokens=LONG_TOKENS, extra_body=ENDLESS),
    ),
)
