"""PyPI `litellm` with its provider for Ollama's own API."""

from driving import COLD, URL
from litellm_calls import drive_litellm

drive_litellm("ollama_chat/", "ollama/", api_base=URL, **COLD)
