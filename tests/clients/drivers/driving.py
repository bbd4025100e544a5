"""What every Python driver shares: the same questions, and one line of JSON with what came back.

A driver is started as `drive_x.py URL MODEL`, URL being http://host:port, in an environment that has the
client and nothing of ours. A call returns what must be the same each time, never ids or times.
"""

import json
import sys
from collections.abc import Callable
from itertools import islice
from typing import Any

URL, MODEL = sys.argv[1:3]
UNKNOWN = "nobody:1b"
QUESTION = "Name three rivers of Europe."
LONG = "Count from one to one thousand."
TEXTS = ["a river", "a stone"]
TOKENS = 12
LONG_TOKENS = 1500
PARTS_BEFORE_LEAVING = 2
# Without a cached prefix, which is summed in another order; engines that do not know the key ignore it.
COLD = {"cache_prompt": False}
# A reply that is still being made when its reader leaves, whatever the model would rather do.
ENDLESS = {**COLD, "ignore_eos": True}
OLLAMA_OPTIONS = {"temperature": 0, "seed": 1, "num_predict": TOKENS, **COLD}
OLLAMA_ENDLESS = {**OLLAMA_OPTIONS, **ENDLESS, "num_predict": LONG_TOKENS}
PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "Its name"}},
    "required": ["city"],
}
TOOL = {
    "type": "function",
    "function": {"name": "weather", "description": "The weather of a city", "parameters": PARAMETERS},
}


def drive(**calls: Callable[[], Any]) -> None:
    """Make the calls one after another and print their results as one line."""
    results: dict[str, Any] = {}
    for name, call in calls.items():
        try:
            results[name] = call()
        except Exception as error:
            results[name] = failure(error)
    print(json.dumps(results, sort_keys=True))


def failure(error: BaseException) -> dict[str, Any]:
    """What a program sees of an error."""
    status = getattr(error, "status_code", None)
    return {"failure": type(error).__name__, "status": status, "message": str(error)}


def first_parts(stream: Any) -> list[Any]:
    """Take two parts of a stream that has many more."""
    return list(islice(stream, PARTS_BEFORE_LEAVING))


def numbers(vectors: Any) -> list[list[float]]:
    """The size and start of each vector: enough to tell two apart, short enough to read."""
    return [[len(vector), *(round(value, 6) for value in vector[:4])] for vector in vectors]
