"""The holder's side: what a paired node may read of the models that lie here. Both questions are bounded."""

import asyncio
import re
from collections.abc import Callable, Iterable
from urllib.parse import unquote

from pairproxy.core.errors import CopyFailed, ModelNotFound, UpstreamError
from pairproxy.core.models import ModelName, NodeId
from pairproxy.core.replicas import canonical_name
from pairproxy.replicating.files import Held, read_held, read_part
from pairproxy.replicating.names import NAME_CHARACTERS, full_name
from pairproxy.replicating.ollama import Ollama
from pairproxy.responses import Asked, Response, StreamResponse

MANIFEST_PATH = "/pairproxy/models/manifest"
PART_PATH = "/pairproxy/models/part"
PART_BYTES = 1024 * 1024  # of one answer: 10 ms of gigabit Ethernet, and 2 ms of encryption on the loop
READS = 4  # parts at once, of all peers together: 4 MiB of memory, and the disk still answers others
REST_S = 0.05  # before each part while requests run here: 20 MB/s, a fifth of gigabit Ethernet
REMEMBERED = 16  # models whose place is known
REMEMBERED_S = 60.0  # then it is looked up again: it may have been pulled anew
_PART = re.compile(
    r"/pairproxy/models/part\?model=([^&\s]{1,1024})&digest=(sha256:[0-9a-f]{64})&start=([0-9]{1,15})&bytes=([0-9]{1,8})",
    re.ASCII,
)
_MANIFEST = re.compile(r"/pairproxy/models/manifest\?model=([^&\s]{1,1024})", re.ASCII)

MayUse = Callable[[NodeId, ModelName], bool]


class Holding:
    """Answers peers; the models are those of the node's Ollamas that they may use."""

    def __init__(
        self,
        ollamas: Callable[[], Iterable[Ollama]],
        may_use: MayUse,
        is_busy: Callable[[], bool],
        now: Callable[[], float],
    ) -> None:
        """``is_busy``: whether requests run here."""
        self._ollamas = ollamas
        self._is_busy = is_busy
        self._now = now
        self._may_use = may_use
        self._held: dict[ModelName, tuple[float, Held]] = {}
        self._reads, self._alone = asyncio.Semaphore(READS), asyncio.Lock()

    async def answer(self, request: Asked, peer: NodeId) -> StreamResponse:
        """GET of MANIFEST_PATH or PART_PATH. Raises ModelNotFound, CopyFailed, UpstreamError."""
        if (match := _MANIFEST.fullmatch(request.raw_path)) is not None:
            async with self._reads:  # a look asks Ollama twice
                held = await self.held(self._allowed(match[1], peer), is_new=True)
            return _bytes(held.manifest.content)
        if (match := _PART.fullmatch(request.raw_path)) is None or int(match[4]) > PART_BYTES:
            raise CopyFailed("That is no part of a model that could be asked for.")
        async with self._reads:
            held = await self.held(self._allowed(match[1], peer))
            if self._is_busy():
                async with self._alone:
                    await asyncio.sleep(REST_S)
            return _bytes(await asyncio.to_thread(read_part, held, match[2], int(match[3]), int(match[4])))

    async def held(self, model: ModelName, *, is_new: bool = False) -> Held:
        """Where a model lies, known for a minute unless ``is_new``.

        Raises ModelNotFound, CopyFailed, UpstreamError.
        """
        found_at, held = self._held.get(model, (0.0, None))
        if held is None or is_new or self._now() - found_at > REMEMBERED_S:
            held = await self._find(model)
            self._held.pop(model, None)
            self._held[model] = (self._now(), held)
            while len(self._held) > REMEMBERED:
                del self._held[next(iter(self._held))]
        return held

    async def _find(self, model: ModelName) -> Held:
        failure: UpstreamError | None = None
        for ollama in self._ollamas():
            try:
                listed = (await ollama.models()).get(model)
            except UpstreamError as error:
                failure = error
                continue
            if listed is not None:
                modelfile = await ollama.modelfile(listed.name)
                digest = listed.digest.removeprefix("sha256:")
                return await asyncio.to_thread(read_held, modelfile, full_name(listed.name), digest)
        raise failure or ModelNotFound(NO_MODEL)

    def _allowed(self, quoted: str, peer: NodeId) -> ModelName:
        name = canonical_name(unquote(quoted)[:NAME_CHARACTERS])
        if not self._may_use(peer, name):
            raise ModelNotFound(NO_MODEL)
        return name


def _bytes(content: bytes) -> Response:
    return Response(body=content, content_type="application/octet-stream")


NO_MODEL = "No Ollama on this machine has such a model. `pairproxy models` lists which node has which."
