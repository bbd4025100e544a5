"""Settings -> engine: the one table of the kinds.

The two engines that we bring are imported by who has one: few do, and they are 2 MB of a daemon at rest.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pairproxy.config import EngineSettings
from pairproxy.core.models import EngineId
from pairproxy.engines.found import FoundEngine
from pairproxy.engines.llamacpp import LlamaCppEngine
from pairproxy.engines.lmstudio import LmStudioEngine
from pairproxy.engines.ollama import OllamaEngine
from pairproxy.engines.openai import OpenAiEngine
from pairproxy.engines.ports import client_port
from pairproxy.engines.sought import IsOurs, SoughtEngine, places_of
from pairproxy.interfaces import Engine

if TYPE_CHECKING:
    from pairproxy.engines.model_fetch import Progress

_FOUND: dict[str, Callable[[EngineSettings], FoundEngine]] = {
    "ollama": OllamaEngine,
    "lmstudio": LmStudioEngine,
    "llamacpp": LlamaCppEngine,
    "openai": OpenAiEngine,
}


def build_engine(
    settings: EngineSettings,
    cache: Path,
    on_progress: "Progress",
    log: logging.Logger,
    is_ours: IsOurs = lambda port: False,
) -> Engine:
    """The engine that an [[engines]] entry describes, not started. Raises ConfigError.

    ``is_ours``: whether this daemon listens for clients at a port, now.
    """
    if settings.kind == "embedded":
        from pairproxy.engines.embedded import EmbeddedEngine

        return EmbeddedEngine(settings, cache, on_progress, log)
    if settings.kind == "paced":
        from pairproxy.engines.paced import PacedEngine

        slots = settings.slots or 1
        return PacedEngine(settings.paced, slots=slots, listen=client_port(settings), id=EngineId("paced"))
    where = places_of(settings)
    if where is not None:
        return SoughtEngine(settings, where, _FOUND[settings.kind], is_ours)
    return _FOUND[settings.kind](settings)
