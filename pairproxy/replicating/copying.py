"""One copy to this node: checked, pulled by its own Ollama, given its name. What is not whole gets none."""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from pairproxy.api.replication import CopyProgress, CopyState
from pairproxy.core.errors import CopyFailed, PairproxyError, UpstreamError
from pairproxy.core.replicas import canonical_name
from pairproxy.replicating.files import directories
from pairproxy.replicating.manifest import MANIFEST_BYTES, Manifest, check_config
from pairproxy.replicating.names import full_name, left_over
from pairproxy.replicating.ollama import Ollama, PullLine
from pairproxy.replicating.registry import Registry
from pairproxy.replicating.room import begun_bytes, check_room
from pairproxy.replicating.source import Source

TICK_S = 0.5  # between two lines
SPEED_S = 5.0  # over which the speed is taken
TIDY_S = 15.0  # for taking away what is not whole, when a copy was given up
MOST_SHOWN = 8  # models that are asked where they lie: one is enough, unless it is a cloud's
WHOLE = "sha256:model"  # what Ollama calls all blobs together of a model of single tensors
_log = logging.getLogger(__name__)

Send = Callable[[CopyProgress], Awaitable[None]]
"""Takes a line; raises where nobody hears it any more, which ends the copy."""


@dataclass(slots=True)
class Progress:
    """How far it is."""

    state: CopyState = "checking"
    manifest: Manifest | None = None
    done: dict[str, int] = field(default_factory=dict)  # digest -> bytes
    now: str = ""  # the digest that comes
    was_there: bool = False
    is_identical: bool = True
    error: str = ""
    seen: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=round(SPEED_S / TICK_S)))

    def heard(self, line: PullLine) -> None:
        """A line of Ollama's."""
        if self.manifest is None:
            return
        if line.digest == WHOLE or line.digest in self.manifest.sizes:
            self.state, self.now = "copying", line.digest
            most = self.manifest.sizes.get(line.digest, self.manifest.total_bytes)
            self.done[line.digest] = min(max(line.completed, 0), most)
        elif line.status.startswith("verifying"):
            self.state = "verifying"

    @property
    def done_bytes(self) -> int:
        """Of all blobs."""
        return self.done[WHOLE] if WHOLE in self.done else sum(self.done.values())

    def bytes_per_s(self, at: float, came: int) -> float | None:
        """Of the last seconds. ``came``: bytes that came by now, those that were there before not."""
        self.seen.append((at, came))
        since, before = self.seen[0]
        return (came - before) / (at - since) if at > since and self.state == "copying" else None


class Copying:
    """One copy of ``model`` from ``source`` to this node's ``ollama``; run once."""

    def __init__(self, own: str, ollama: Ollama, model: str, source: Source) -> None:
        """``own``: this node's id."""
        self._own = own
        self._ollama = ollama
        self._model = model
        self._source = source
        self._progress = Progress()

    async def run(self, send: Send) -> None:
        """Copy, and tell how it goes; the last line is `done` or `failed`. Cancelling it leaves no model."""
        async with asyncio.TaskGroup() as group:
            work = group.create_task(self._work(), name="copy of a model")
            while not work.done():
                await asyncio.wait({work}, timeout=TICK_S)
                if not work.done():
                    await send(self._told())
        await send(self._told())

    def _told(self) -> CopyProgress:
        progress, manifest = self._progress, self._progress.manifest
        total = manifest.total_bytes if manifest is not None else 0
        speed = progress.bytes_per_s(asyncio.get_running_loop().time(), self._source.came_bytes)
        left = total - progress.done_bytes
        blobs = list(manifest.sizes) if manifest is not None else []
        return CopyProgress(
            node=self._own,
            state=progress.state,
            model=canonical_name(self._model),
            peer=self._source.name,
            is_to_here=True,
            blob=blobs.index(progress.now) + 1 if progress.now in blobs else 0,
            blobs=len(blobs),
            done_bytes=total if progress.state == "done" else progress.done_bytes,
            total_bytes=total,
            bytes_per_s=speed,
            left_s=left / speed if speed else None,
            was_there=progress.was_there,
            is_identical=progress.is_identical,
            problem=self._source.problem,
            error=progress.error,
        )

    async def _work(self) -> None:
        try:
            await self._copy()
            self._progress.state = "done"
        except PairproxyError as error:
            self._progress.state, self._progress.error = "failed", error.sentence

    async def _copy(self) -> None:
        name = full_name(self._model)
        self._progress.manifest = manifest = await self._source.manifest()
        if await self._is_there(manifest):
            self._progress.was_there = True
            return
        await self._check_config(manifest)
        await tidy(self._ollama)
        await self._check_room(manifest)
        failed: asyncio.Future[PairproxyError] = asyncio.get_running_loop().create_future()
        async with Registry(manifest, name, self._source.read, _once(failed)) as registry:
            try:
                await self._pull(registry.model, failed)
                await self._name(registry.model, manifest)
            finally:
                await _unname(self._ollama, registry.model)

    async def _is_there(self, manifest: Manifest) -> bool:
        """Whether the very model is here already. Raises CopyFailed where another one has its name."""
        listed = (await self._ollama.models()).get(canonical_name(self._model))
        if listed is None:
            return False
        if listed.digest.removeprefix("sha256:") == manifest.digest:
            return True
        name = listed.name
        raise CopyFailed(
            f"There is another model called {name} already, and it is not written over. Where it is,"
            f" `ollama cp {name} OTHER` and `ollama rm {name}` give its name away; then run this again."
        )

    async def _check_config(self, manifest: Manifest) -> None:
        if manifest.config is None:
            return
        size = manifest.sizes[manifest.config]
        if size > MANIFEST_BYTES:
            raise CopyFailed("What this model says of itself is too long to be read: not copied.")
        parts = [part async for part in self._source.read(manifest.config, 0, size)]
        check_config(manifest, b"".join(parts))

    async def _check_room(self, manifest: Manifest) -> None:
        missing = [digest for digest in manifest.sizes if not await self._ollama.has_blob(digest)]
        modelfile = ""
        for listed in islice((await self._ollama.models()).values(), MOST_SHOWN):
            if modelfile := await self._ollama.modelfile(listed.name):
                break
        await asyncio.to_thread(_check, modelfile, missing, sum(manifest.sizes[one] for one in missing))

    async def _pull(self, temporary: str, failed: "asyncio.Future[PairproxyError]") -> None:
        """Let Ollama pull; a failure of ours ends it at once, while it would try for a minute more."""
        async with asyncio.TaskGroup() as group:
            pulling = group.create_task(self._heed(temporary), name="pull of a model")
            either: set[asyncio.Future[Any]] = {pulling, failed}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            pulling.cancel()
        error = failed.result() if failed.done() else pulling.result()
        if error is not None:
            raise error

    async def _heed(self, temporary: str) -> PairproxyError | None:
        """Hear Ollama to the end; what went wrong, if anything did."""
        try:
            async with contextlib.aclosing(self._ollama.pull(temporary)) as lines:
                async for line in lines:
                    self._progress.heard(line)
        except UpstreamError:
            return CopyFailed(_GONE)
        except PairproxyError as error:
            return error
        return None

    async def _name(self, temporary: str, manifest: Manifest) -> None:
        """Give the whole model its name, if that is still free."""
        got = (await self._ollama.models()).get(canonical_name(temporary))
        if got is None:
            raise CopyFailed(
                "Ollama on this machine says that it has the model, and does not list it. See its log."
            )
        self._progress.is_identical = got.digest.removeprefix("sha256:") == manifest.digest
        if await self._is_there(manifest):
            self._progress.was_there = True
            return
        await self._ollama.copy(got.name, self._model)
        _log.info("%s was copied here from %s", canonical_name(self._model), self._source.name)


_GONE = "Ollama on this machine answers no more. When it runs, run this again: it goes on where it stopped."


def _check(modelfile: str, missing: list[str], needed_bytes: int) -> None:
    places = list(directories(modelfile))
    place = next((one for one in places if _exists(one)), places[0])
    check_room(place, needed_bytes - begun_bytes(place / "blobs", missing))


def _exists(place: Path) -> bool:
    try:
        return place.exists()
    except OSError:
        return False


async def tidy(ollama: Ollama) -> None:
    """Take away what copies left that were killed at the very end: models whose registry is gone."""
    with contextlib.suppress(UpstreamError):
        for listed in (await ollama.models()).values():
            where = left_over(listed.name)
            if where is not None and not await _answers(*where):
                await ollama.delete(listed.name)


async def _unname(ollama: Ollama, temporary: str) -> None:
    """Take the temporary name away, also of a copy given up; blobs stay where the real name has them."""
    with contextlib.suppress(UpstreamError, TimeoutError):
        async with asyncio.timeout(TIDY_S):
            if canonical_name(temporary) in await ollama.models():
                await ollama.delete(temporary)


def _once(future: "asyncio.Future[PairproxyError]") -> Callable[[PairproxyError], None]:
    return lambda error: None if future.done() else future.set_result(error)


async def _answers(host: str, port: int) -> bool:
    try:
        async with asyncio.timeout(1.0):
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True
