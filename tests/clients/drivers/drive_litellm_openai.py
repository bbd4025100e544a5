"""PyPI `litellm` with its provider for servers that speak OpenAI's API."""

from driving import COLD, ENDLESS, URL
from litellm_calls import drive_litellm

drive_litellm(
    "openai/", "openai/", {"extra_body": ENDLESS}, api_base=f"{URL}/v1", api_key="none", extra_body=COLD
)
