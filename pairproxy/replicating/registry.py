"""A registry of one model for one copy, on loopback: what this node's Ollama pulls from.

What it answers is what server/download.go, server/images.go and x/transfer of Ollama 0.33 ask for: the
manifest, HEAD and ranges of blobs. A GET of a whole blob is only asked to learn where it really lies: it is
answered with ``Location`` (without one Ollama gives up), or, for models of single tensors, by a redirect to
another name of this very host, for those read the whole of any other answer.
"""

import contextlib
import logging
import random
import re
import socket
from collections.abc import AsyncGenerator, Callable
from types import TracebackType
from typing import Self

from pairproxy.config import Limits
from pairproxy.core.errors import CopyFailed, PairproxyError, UpstreamError
from pairproxy.proxy.request import HttpRequest
from pairproxy.proxy.server import PagePort
from pairproxy.replicating.manifest import Manifest
from pairproxy.replicating.names import FullName, has_colons_in_paths, temporary_namespace
from pairproxy.responses import Response, StreamResponse

CONNECTIONS = 64  # Ollama opens 16 for a blob, and some to look
_RANGE = re.compile(r"bytes=([0-9]{1,15})-([0-9]{1,15})?", re.ASCII)
_log = logging.getLogger(__name__)

Read = Callable[[str, int, int], AsyncGenerator[bytes, None]]
"""(digest, start, stop) -> the bytes of a blob. Raises CopyFailed, UpstreamError."""


class Registry(PagePort):
    """Open inside ``async with``."""

    def __init__(
        self, manifest: Manifest, name: FullName, read: Read, failed: Callable[[PairproxyError], None]
    ) -> None:
        """``failed`` hears why the bytes of a blob do not come, for Ollama's own words would not say it."""
        super().__init__(self._answer, Limits(), most=CONNECTIONS)
        self._manifest = manifest
        self._read = read
        self._failed = failed
        self._namespace = temporary_namespace()
        self._name = name
        self._root = f"/v2/{self._namespace}/{name.model}"

    @property
    def model(self) -> str:
        """What Ollama is to pull."""
        return f"{self._authority}/{self._namespace}/{self._name.model}:{self._name.tag}"

    async def __aenter__(self) -> Self:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            self._authority = _bound(sock)
        except OSError:
            sock.close()
            raise CopyFailed("There is no free port on loopback for the copy. Try again.") from None
        sock.listen(CONNECTIONS)
        self._port = sock.getsockname()[1]
        await self.start(sock)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def _answer(self, request: HttpRequest) -> StreamResponse:
        path = request.raw_path.partition("?")[0]
        if request.method in ("GET", "HEAD"):
            if path == f"{self._root}/manifests/{self._name.tag}":
                kind = "application/vnd.docker.distribution.manifest.v2+json"
                return Response(body=self._manifest.content, content_type=kind)
            digest = path.removeprefix(f"{self._root}/blobs/")
            if (size := self._manifest.sizes.get(digest)) is not None:
                return await self._blob(request, path, digest, size)
        return Response(status=404)

    async def _blob(self, request: HttpRequest, path: str, digest: str, size: int) -> StreamResponse:
        if request.method == "HEAD":
            return Response(headers={"Content-Length": str(size), "Accept-Ranges": "bytes"})
        asked = request.headers.get("Range")
        is_direct = request.headers.get("Host", "").startswith("localhost")
        if asked is None and not self._manifest.is_tensors:
            return Response(headers={"Location": path})
        if asked is None and not is_direct:
            return Response(status=307, headers={"Location": f"http://localhost:{self._port}{path}"})
        start, stop = 0, size
        if asked is not None:
            if (match := _RANGE.fullmatch(asked)) is None or int(match[1]) >= size:
                return Response(status=416)
            start, stop = int(match[1]), min(int(match[2] or size) + 1, size)
        reply = StreamResponse(status=206 if asked is not None else 200)
        reply.tell_length(stop - start)
        if asked is not None:
            reply.headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
        await reply.prepare(request)
        try:
            async with contextlib.aclosing(self._read(digest, start, stop)) as parts:
                async for part in parts:
                    await reply.write(part)
        except (CopyFailed, UpstreamError) as error:
            self._failed(error)
            if request.transport is not None:
                request.transport.abort()
            raise ConnectionResetError("the copy failed") from None
        return reply


def _bound(sock: socket.socket) -> str:
    """Bind to loopback; returns the host as it stands in a name. Raises OSError.

    Windows has no directories with colons, and Ollama makes one of the host: there it is an address of its
    own with the port that is not told, 80 (untested on a real Windows).
    """
    if has_colons_in_paths():
        sock.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{sock.getsockname()[1]}"
    host = f"127.{random.randint(1, 254)}.{random.randint(1, 254)}.{random.randint(2, 254)}"
    sock.bind((host, 80))
    return host
