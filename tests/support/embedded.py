"""The real embedded engine for tests: fetched once into the shared cache, about a second to start."""

import asyncio
import contextlib
import functools
import importlib.util
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pairproxy.config import EngineSettings, cache_dir
from pairproxy.core.errors import EngineUnavailable
from pairproxy.engines.embedded import EmbeddedEngine
from pairproxy.engines.model_fetch import fetch_model

LOG = logging.getLogger("tests.embedded")


@functools.cache
def model_cache() -> Path:
    """The cache with the model in it, fetched at the first call. Skips the test where it cannot be had."""
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("the embedded engine is not installed (extra: embedded)")
    try:
        asyncio.run(fetch_model(cache_dir(), lambda *_: None))
    except EngineUnavailable as error:
        pytest.skip(f"the embedded engine's model cannot be had: {error.sentence}")
    return cache_dir()


@contextlib.asynccontextmanager
async def embedded_engine(cache: Path, **settings: object) -> AsyncIterator[EmbeddedEngine]:
    """A started and watched engine; gone after the block. Call model_cache() outside of a loop."""
    engine = EmbeddedEngine(
        EngineSettings(kind="embedded", **settings),  # type: ignore[arg-type]
        cache,
        lambda *_: None,
        LOG,
    )
    try:
        await engine.start()
        watching = asyncio.create_task(engine.run(), name="embedded engine")
        yield engine
    finally:
        await engine.stop()
    await watching
