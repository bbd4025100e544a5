"""What is answered at a client port whose own engine does not answer, while other nodes can serve.

Inference and the listings of models need no engine here (dispatcher, catalogue). This is the rest of what a
client asks before it gets to them: whether anything runs, which version, whether there is any model.
"""

from collections.abc import Callable

import msgspec

from pairproxy.core.catalogue import listing_at, only_listing
from pairproxy.core.dialects import routes
from pairproxy.core.errors import ModelNotFound, Unreachable
from pairproxy.core.models import EngineId
from pairproxy.core.scheduler import Scheduler
from pairproxy.proxy.downstream import JSON, Downstream
from pairproxy.proxy.request import HttpRequest

RUNNING = b"Ollama is running"
"""What Ollama answers to GET /, word for word: clients look for it (server/routes.go)."""
NO_VERSION = "0.0.0"
"""What an Ollama that was built without a version calls itself (version/version.go)."""
_TEXT = ("Content-Type", "text/plain; charset=utf-8")
_AS_OLLAMA = ("ollama", "embedded", "paced")
"""Kinds of ports whose clients take them for an Ollama."""


class Absent:
    """Answers in the place of an engine that is not there."""

    def __init__(self, scheduler: Scheduler, now: Callable[[], float]) -> None:
        self._scheduler = scheduler
        self._now = now

    def is_here(self, engine: EngineId) -> bool:
        """Whether an engine of this node is there as far as is known: its own answer counts."""
        return self._scheduler.local.get(engine) is not None

    def answer(self, request: HttpRequest, kind: str, downstream: Downstream) -> None:
        """Answer at a port that stands for an engine of ``kind``, whose body was not asked for.

        Raises ModelNotFound for a question about one model, Unreachable for what only an engine can do.
        """
        path, is_read = routes.path_of(request.raw_path), request.method in ("GET", "HEAD")
        listing = listing_at(path)
        if is_read and listing is not None:
            downstream.answer(200, (JSON,), only_listing(listing, ()))
        elif is_read and path == "/" and kind in _AS_OLLAMA:
            downstream.answer(200, (_TEXT,), RUNNING)
        elif is_read and path == "/api/version" and kind in _AS_OLLAMA:
            downstream.answer(200, (JSON,), msgspec.json.encode({"version": self._version()}))
        elif (request.method, path) == ("POST", "/api/show") or (is_read and listing_at(_parent(path))):
            raise ModelNotFound(
                "No machine that answers has this model. `pairproxy models` lists what they have."
            )
        else:
            raise Unreachable(
                f"No engine answers on this machine, and {_shown(request)} is for one of this machine alone. "
                "Start one here, or do it on a machine that has one."
            )

    def _version(self) -> str:
        """The oldest that a peer's Ollama has: what a client asks for then, every one of them can do."""
        told = [
            engine.version
            for document in self._scheduler.nodes.healthy(self._now())
            for engine in document.engines
            if engine.kind == "ollama" and engine.version
        ]
        return min(told, key=_numbers, default=NO_VERSION)


def nobody_has_it() -> ModelNotFound:
    """What is said of a model that no machine shows."""
    return ModelNotFound("No machine that answers has this model. `pairproxy models` lists what they have.")


def _numbers(version: str) -> tuple[int, ...]:
    parts = version.partition("-")[0].split(".")[:3]
    return tuple(int(part) for part in parts if part.isdecimal() and len(part) < 10)


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _shown(request: HttpRequest) -> str:
    """Method and path, where they are of the known ones; a path may hold anything."""
    path = routes.path_of(request.raw_path)
    return f"{request.method} {path}" if path in routes.LOCAL or path in routes.CATALOGUE else "this"
