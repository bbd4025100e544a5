"""The sampling options of an Ollama request, by the names llama.cpp's server reads.

Options that configure a runner (num_ctx, num_gpu, num_thread ...) and unknown ones are dropped, as
Ollama drops what it does not know: the engine's window and threads are fixed when it starts.
"""

from typing import Any

from pairproxy.core.dialects.translate_json import field
from pairproxy.core.errors import BadRequest

INT_LIMIT = 2**31  # llama.cpp keeps integers in 32 bits and would wrap larger ones silently
SEED_LIMIT = 2**32

_NUMBERS = (
    "temperature", "top_p", "min_p", "typical_p", "repeat_penalty", "presence_penalty",
    "frequency_penalty", "mirostat_tau", "mirostat_eta",
    # llama.cpp's own
    "dynatemp_range", "dynatemp_exponent", "xtc_probability", "xtc_threshold", "top_n_sigma",
    "dry_multiplier", "dry_base",
)  # fmt: skip
_INTEGERS = (
    "top_k", "seed", "repeat_last_n", "mirostat",
    # llama.cpp's own
    "dry_allowed_length", "dry_penalty_last_n", "min_keep", "t_max_predict_ms",
)  # fmt: skip
_SWITCHES = ("ignore_eos", "cache_prompt")  # llama.cpp's own


def sampling(body: dict[str, Any]) -> dict[str, Any]:
    """Translate ``body["options"]``. Nulls count as absent. Raises BadRequest for wrong types."""
    options = field(body, "options", dict) or {}
    given = {key: value for key, value in options.items() if value is not None}
    out: dict[str, Any] = {}
    for key in _NUMBERS:
        if key in given:
            out[key] = _number(key, given[key])
    for key in _INTEGERS:
        if key in given:
            out[key] = _integer(key, given[key])
    for key in _SWITCHES:
        if key in given:
            out[key] = _switch(key, given[key])
    if "num_keep" in given:
        out["n_keep"] = _integer("num_keep", given["num_keep"])
    if "num_predict" in given:
        limit = _integer("num_predict", given["num_predict"])
        if limit > 0:  # -1, -2 and 0 mean: until the model stops or its window is full
            out["max_tokens"] = limit
    if "stop" in given:
        out["stop"] = _stops(given["stop"])
    return out


def response_format(body: dict[str, Any]) -> dict[str, Any]:
    """Translate ``format`` ("json" or a JSON schema) for /v1/chat/completions. Raises BadRequest."""
    wanted = body.get("format")
    if wanted is None or wanted == "":
        return {}
    if wanted == "json":
        return {"response_format": {"type": "json_object"}}
    if isinstance(wanted, dict):
        schema = {"name": "reply", "schema": wanted, "strict": True}
        return {"response_format": {"type": "json_schema", "json_schema": schema}}
    raise BadRequest('"format" must be "json" or a JSON schema')


def json_schema(body: dict[str, Any]) -> dict[str, Any]:
    """Translate ``format`` for /v1/completions, where llama.cpp reads a bare schema. Raises BadRequest."""
    wanted = response_format(body).get("response_format")
    if wanted is None:
        return {}
    return {"json_schema": wanted["json_schema"]["schema"] if "json_schema" in wanted else {"type": "object"}}


def _number(key: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadRequest(f'option "{key}" must be a number')
    return value


def _integer(key: str, value: object) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadRequest(f'option "{key}" must be an integer')
    if not -INT_LIMIT <= value < (SEED_LIMIT if key == "seed" else INT_LIMIT):
        raise BadRequest(f'option "{key}" is out of range')
    return value


def _switch(key: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise BadRequest(f'option "{key}" must be true or false')
    return value


def _stops(value: object) -> list[str]:
    stops = [value] if isinstance(value, str) else value
    if not isinstance(stops, list) or not all(isinstance(stop, str) for stop in stops):
        raise BadRequest('option "stop" must be a list of strings')
    return stops
