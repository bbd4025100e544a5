"""What the two litellm drivers share."""

import litellm
from driving import LONG, LONG_TOKENS, MODEL, QUESTION, TEXTS, TOKENS, TOOL, UNKNOWN
from driving import drive, first_parts, numbers

asked = [{"role": "user", "content": QUESTION}]


def drive_litellm(prefix, embedding_prefix, endless, **settings):
    exact = {"temperature": 0, "seed": 1, "max_tokens": TOKENS, "num_retries": 0, **settings}
    where = {key: value for key, value in settings.items() if key in ("api_base", "api_key")}

    def ask(name=MODEL, **more):
        return litellm.completion(**{"model": prefix + name, "messages": asked, **exact, **more})

    def whole(**more):
        choice = ask(**more).choices[0]
        return [choice.message.content, choice.finish_reason]

    def tools():
        message = ask(tools=[TOOL]).choices[0].message
        calls = [[call.function.name, call.function.arguments] for call in message.tool_calls or []]
        return {"role": message.role, "content": message.content, "calls": calls}

    def embeddings():
        reply = litellm.embedding(model=embedding_prefix + MODEL, input=TEXTS, **where)
        return numbers(one["embedding"] for one in reply.data)

    def abort():
        stream = ask(
            messages=[{"role": "user", "content": LONG}], max_tokens=LONG_TOKENS, stream=True, **endless
        )
        parts = [part.choices[0].delta.content for part in first_parts(stream)]
        stream.close()
        return parts

    drive(
        chat=whole,
        stream=lambda: [part.choices[0].delta.content for part in ask(stream=True)],
        tools=tools,
        embeddings=embeddings,
        error=lambda: whole(name=UNKNOWN),
        abort=abort,
    )
