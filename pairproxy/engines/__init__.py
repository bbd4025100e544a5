"""The LLM servers of this node, each behind interfaces.Engine.

::

    finder -> which answer on loopback            monitor -> asks each one, tells what changed
    ollama, lmstudio, llamacpp, openai            engines that were found: only probed
    embedded -> llama_child (llama.cpp, a child)  the engine we bring: fetched, started, watched, ended
             -> model_fetch (its model, once)
             -> ollama_face (so that Ollama's clients work without Ollama)
"""
