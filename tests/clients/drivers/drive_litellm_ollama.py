"""PyPI `litellm` with its provider for Ollama's own API."""

from driving import COLD, ENDLESS, URL
from litellm_calls import drive_litellm

drive_litellm("ollama_chat/", "ollama/", ENDLESS, api_base=URL, **COLD)
