"""A stand-in for an Ollama that keeps its models in real files and pulls as the real one does.

Names, paths, ranges, retries, partial files and their resuming follow server/images.go, server/download.go,
manifest/paths.go and types/model/name.go of Ollama 0.33 (fb307609); the sizes and pauses are smaller::

    store = OllamaStore(directory)
    store.add("m:1", b"weights", b"template")
    with in_thread(store.script) as engine: ...
"""

import asyncio
import contextlib
import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from tests.support.engine_scripts import LAST_CHUNK, chunk, chunked_head, head, json_bytes
from tests.support.fake_engine import EngineConnection, ParsedRequest, PeerLeft
from tests.support.ollama_pull import TICK_S, Download, Name, PullFailed, parse

CONFIG_TYPE = "application/vnd.docker.container.image.v1+json"
MODEL_TYPE = "application/vnd.ollama.image.model"
SINCE = "2026-10-01T00:00:00Z"


@dataclass
class OllamaStore:
    """``part_bytes``: the smallest part of a blob that is fetched by itself; 100 MB in the real one."""

    directory: Path
    part_bytes: int = 256 * 1024
    config: bytes = b"{}"
    """Of the models that are added."""
    fails_with: str = ""
    """What it says to every pull, when it is set."""
    is_slow: bool = False
    """Whether it takes a second over each part, so that a test can come between."""
    pulls: list[str] = field(default_factory=list)

    # --- files ------------------------------------------------------------------------------------------

    @property
    def blobs(self) -> Path:
        return self.directory / "blobs"

    def blob(self, digest: str) -> Path:
        return self.blobs / digest.replace(":", "-")

    def manifest(self, name: str) -> Path:
        return self.directory / "manifests" / parse(name).path

    def add(self, name: str, *blobs: bytes | int, kind: str = MODEL_TYPE) -> str:
        """Have a model of these blobs, the first its weights; a number is a sparse file. Its digest."""
        layers = [self._layer(blob, kind) for blob in blobs]
        document = {"schemaVersion": 2, "config": self._layer(self.config, CONFIG_TYPE), "layers": layers}
        content = json.dumps(document).encode()
        path = self.manifest(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return hashlib.sha256(content).hexdigest()

    def names(self) -> list[str]:
        """Of all models that it lists."""
        return [name.shortest for name, _ in self._models()]

    def leftovers(self) -> list[str]:
        """Files of blobs that are not whole."""
        return sorted(one.name for one in self.blobs.glob("*-partial*"))

    def _layer(self, blob: bytes | int, kind: str) -> dict[str, Any]:
        self.blobs.mkdir(parents=True, exist_ok=True)
        if isinstance(blob, bytes):
            digest, size = f"sha256:{hashlib.sha256(blob).hexdigest()}", len(blob)
            self.blob(digest).write_bytes(blob)
        else:
            digest, size = f"sha256:{_hash_of_zeros(blob)}", blob
            with self.blob(digest).open("wb") as file:
                file.truncate(blob)
        return {"mediaType": kind, "digest": digest, "size": size}

    def _models(self) -> list[tuple[Name, Path]]:
        root = self.directory / "manifests"
        found = [one for one in root.glob("*/*/*/*") if one.is_file()]
        return [(Name(*one.relative_to(root).parts), one) for one in sorted(found)]

    # --- what it answers --------------------------------------------------------------------------------

    async def script(self, request: ParsedRequest, connection: EngineConnection) -> None:
        """For FakeEngine."""
        body = json.loads(request.body) if request.body[:1] == b"{" else {}
        match request.method, request.path:
            case _, "/api/version":
                await connection.send(json_bytes({"version": "0.33.0"}))
            case _, "/api/tags":
                await connection.send(json_bytes({"models": [self._entry(*one) for one in self._models()]}))
            case _, "/api/ps":
                await connection.send(json_bytes({"models": []}))
            case _, "/v1/models":
                data = [
                    {"id": name, "object": "model", "created": 1, "owned_by": "x"} for name in self.names()
                ]
                await connection.send(json_bytes({"object": "list", "data": data}))
            case "POST", "/api/show":
                await self._show(body, connection)
            case "POST", "/api/pull":
                await self._pull(body, connection)
            case "POST", "/api/copy":
                await self._copy(body, connection)
            case "DELETE", "/api/delete":
                self._delete(body)
                await connection.send(head(200, ("Content-Length", "0")))
            case "HEAD", path if path.startswith("/api/blobs/"):
                is_there = self.blob(path.rpartition("/")[2]).exists()
                await connection.send(head(200 if is_there else 404, ("Content-Length", "0")))
            case "POST", "/api/chat":
                message = {"role": "assistant", "content": "hello"}
                done = {"model": body["model"], "message": message, "done": True, "done_reason": "stop"}
                is_there = self.manifest(body["model"]).exists()
                await connection.send(
                    json_bytes(done if is_there else {"error": "not found"}, 200 if is_there else 404)
                )
            case _:
                await connection.send(head(404, ("Content-Length", "0")))

    def _entry(self, name: Name, path: Path) -> dict[str, Any]:
        content = path.read_bytes()
        size = sum(layer["size"] for layer in json.loads(content)["layers"])
        digest = hashlib.sha256(content).hexdigest()
        return {
            "name": name.shortest,
            "model": name.shortest,
            "modified_at": SINCE,
            "size": size,
            "digest": digest,
        }

    async def _show(self, body: dict[str, Any], connection: EngineConnection) -> None:
        path = self.manifest(body.get("model") or body["name"])
        if not path.exists():
            await connection.send(json_bytes({"error": "model not found"}, 404))
            return
        weights = json.loads(path.read_bytes())["layers"][0]["digest"]
        modelfile = f"# comment\nFROM {self.blob(weights)}\nTEMPLATE x\n"
        shown = {"modelfile": modelfile, "template": "x", "capabilities": ["completion"], "model_info": {}}
        await connection.send(json_bytes(shown))

    async def _copy(self, body: dict[str, Any], connection: EngineConnection) -> None:
        source, to = self.manifest(body["source"]), self.manifest(body["destination"])
        if not source.exists():
            await connection.send(json_bytes({"error": "model not found"}, 404))
            return
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(source.read_bytes())
        await connection.send(head(200, ("Content-Length", "0")))

    def _delete(self, body: dict[str, Any]) -> None:
        path = self.manifest(body.get("model") or body["name"])
        if not path.exists():
            return
        gone = _digests(path.read_bytes())
        path.unlink()
        used = {digest for _, other in self._models() for digest in _digests(other.read_bytes())}
        for digest in gone:
            if digest not in used:
                self.blob(digest).unlink(missing_ok=True)

    # --- pulling ----------------------------------------------------------------------------------------

    async def _pull(self, body: dict[str, Any], connection: EngineConnection) -> None:
        lines: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.pulls.append(body["model"])
        work = asyncio.ensure_future(self._pulled(body, lines))
        await connection.send(chunked_head())
        try:
            while not work.done() or not lines.empty():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(TICK_S):
                        line = await lines.get()
                        await connection.send(chunk(json.dumps(line).encode() + b"\n"))
                if connection.left_at is not None:
                    raise PeerLeft
            work.result()
            await connection.send(LAST_CHUNK)
        finally:
            work.cancel()
            await asyncio.wait({work})

    async def _pulled(self, body: dict[str, Any], lines: "asyncio.Queue[dict[str, Any]]") -> None:
        try:
            if self.fails_with:
                raise PullFailed(self.fails_with)
            name = parse(body["model"])
            if not body.get("insecure"):
                raise PullFailed("insecure protocol http")
            timeout = aiohttp.ClientTimeout(total=None)
            async with aiohttp.ClientSession(timeout=timeout, auto_decompress=False) as session:
                await self._pull_model(session, name, lines)
            lines.put_nowait({"status": "success"})
        except PullFailed as error:
            lines.put_nowait({"error": str(error)})
        except (aiohttp.ClientError, OSError) as error:
            lines.put_nowait({"error": f"{type(error).__name__}: connection refused"})

    async def _pull_model(
        self, session: aiohttp.ClientSession, name: Name, lines: "asyncio.Queue[dict[str, Any]]"
    ) -> None:
        lines.put_nowait({"status": "pulling manifest"})
        root = f"http://{name.host}/v2/{name.namespace}/{name.model}"
        async with session.get(f"{root}/manifests/{name.tag}") as reply:
            if reply.status != 200:
                raise PullFailed(f"pull model manifest: {reply.status}")
            content = await reply.read()
        fetched = []
        for digest in _digests(content):
            if self.blob(digest).exists():
                size = self.blob(digest).stat().st_size
                told = {
                    "status": f"pulling {digest[7:19]}",
                    "digest": digest,
                    "total": size,
                    "completed": size,
                }
                lines.put_nowait(told)
                continue
            await Download(self, session, f"{root}/blobs/{digest}", digest, lines).run()
            fetched.append(digest)
        lines.put_nowait({"status": "verifying sha256 digest"})
        for digest in fetched:
            if f"sha256:{hashlib.sha256(self.blob(digest).read_bytes()).hexdigest()}" != digest:
                self.blob(digest).unlink()
                raise PullFailed("digest mismatch, file must be downloaded again")
        lines.put_nowait({"status": "writing manifest"})
        path = self.directory / "manifests" / name.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _digests(content: bytes) -> list[str]:
    document = json.loads(content)
    config = [document["config"]] if document.get("config") else []
    return [layer["digest"] for layer in (*document["layers"], *config)]


def _hash_of_zeros(size: int) -> str:
    found, block = hashlib.sha256(), bytes(1024 * 1024)
    for start in range(0, size, len(block)):
        found.update(block[: size - start])
    return found.hexdigest()
