"""Whether an engine that holds the replica can serve this very request, and whether it has to load it anew.

What is not known bars nothing: an engine that cannot do it says so itself, and another one is tried.
"""

import re
from collections import OrderedDict
from typing import Final

from pairproxy.core.dialects import routes
from pairproxy.core.models import ModelName, Place, Replica, Request

SINCE: dict[tuple[str, str], tuple[int, ...]] = {
    # (kind, path) -> the first version that has it, by the engine's own release notes
    ("ollama", "/v1/responses"): (0, 13, 3),
    ("ollama", "/v1/messages"): (0, 14, 0),
}
UNCHECKED = frozenset({"embedding"})
"""Engines embed with any model, also with one that they list for completion only."""
RELOADING_KINDS = frozenset({"ollama"})
"""Engines that load a model anew for a request that asks for another window or other runner options."""
CODINGS: dict[str, frozenset[str]] = {
    "": frozenset({"ollama", "lmstudio", "llamacpp", "openai", "embedded", "paced"}),
    "identity": frozenset({"ollama", "lmstudio", "llamacpp", "openai", "embedded", "paced"}),
    "zstd": frozenset({"ollama"}),
    "gzip": frozenset({"lmstudio"}),
    "x-gzip": frozenset({"lmstudio"}),
}
"""Which engines read a body that is encoded so. Any other coding stays with the engine that was called."""
REMEMBERED_RUNNERS: Final = 1024  # (place, model) pairs; a cluster has a few models on each of a few engines

_NUMBERS = re.compile(r"v?(\d{1,9})\.(\d{1,9})(?:\.(\d{1,9}))?(?![\d.])")  # Python reads 4,300 digits at most
_UNNUMBERED = (0, 0, 0)  # what an Ollama that somebody built at home says


def fits(
    request: Request, kind: str, version: str, replica: Replica, enough_tokens: int | None = None
) -> bool:
    """Whether an engine of this kind and version can serve the request with its replica.

    ``enough_tokens`` is the window of the engine that was called: one as wide does no worse.
    """
    return (
        kind in routes.engine_kinds(request.path)
        and kind in CODINGS.get(request.coding, ())
        and _has_path(request.path, kind, version)
        and (replica.capabilities is None or request.needs - UNCHECKED <= replica.capabilities)
        and _is_wide_enough(request, kind, replica, enough_tokens)
        and (replica.called is None or _can_be_renamed(request))
    )


def _can_be_renamed(request: Request) -> bool:
    """Whether the model's name stands in the body as plain JSON (dialects.rename)."""
    row = routes.inference(request.path)
    return row is not None and not row.is_form and request.coding in ("", "identity")


def _has_path(path: str, kind: str, version: str) -> bool:
    since = SINCE.get((kind, path))
    if since is None:
        return True
    numbers = _numbers(version)
    return numbers is None or numbers >= since


def _numbers(version: str) -> tuple[int, ...] | None:
    match = _NUMBERS.match(version)
    if match is None:
        return None
    numbers = tuple(int(number or 0) for number in match.groups())
    return None if numbers == _UNNUMBERED else numbers


def _is_wide_enough(request: Request, kind: str, replica: Replica, enough_tokens: int | None) -> bool:
    window = replica.context_tokens
    if window is None or (request.context_tokens is not None and kind in RELOADING_KINDS):
        return True  # not known, or the one that the request asks for
    needed = request.prompt_tokens + (request.max_output_tokens or 0)
    return window >= (needed if enough_tokens is None else min(needed, enough_tokens))


class Runners:
    """What each place was last asked to load a model with, as far as this node asked."""

    def __init__(self) -> None:
        self._last: OrderedDict[tuple[Place, ModelName], str] = OrderedDict()
        self._latest: tuple[Place, ModelName, str] | None = None
        self.changes = 0  # grows with everything that may change an answer

    def sent(self, place: Place, request: Request) -> None:
        """A request goes to a place; from now on its runner is the loaded one."""
        sent = (place, request.model, request.runner)
        if sent == self._latest:
            return  # as nearly always
        self._latest, key = sent, (place, request.model)
        self.changes += 1
        self._last[key] = request.runner
        self._last.move_to_end(key)
        if len(self._last) > REMEMBERED_RUNNERS:
            self._last.popitem(last=False)

    def evicts(self, request: Request, place: Place) -> bool:
        """Whether a reload would throw out what this node asked the place for, and may ask for again."""
        last = self._last.get((place, request.model))
        return last is not None and last != request.runner

    def has_to_reload(self, request: Request, place: Place, kind: str, replica: Replica) -> bool:
        """Whether a loaded model must be loaded anew for this request.

        What this node sent last counts before what the engine tells of its window, which is seconds old.
        """
        if kind not in RELOADING_KINDS:
            return False
        if (place, request.model) in self._last:
            return self.evicts(request, place)
        asked, window = request.context_tokens, replica.context_tokens
        return asked is not None and window is not None and asked != window
