"""How the stand-in for an Ollama fetches a blob: in parts, with retries, keeping what came."""

import asyncio
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import aiohttp

PARTS = 16  # numDownloadParts
TRIES = 6  # maxRetries
TICK_S = 0.06


class PullFailed(Exception):
    """Its text is what Ollama says in ``error``."""


@dataclass(frozen=True)
class Name:
    host: str
    namespace: str
    model: str
    tag: str

    @property
    def path(self) -> Path:
        return Path(self.host, self.namespace, self.model, self.tag)

    @property
    def shortest(self) -> str:
        """DisplayShortest()."""
        if self.host != "registry.ollama.ai":
            return f"{self.host}/{self.namespace}/{self.model}:{self.tag}"
        if self.namespace != "library":
            return f"{self.namespace}/{self.model}:{self.tag}"
        return f"{self.model}:{self.tag}"


def parse(text: str) -> Name:
    """ParseName()."""
    tag = "latest"
    if text.rfind(":") > text.rfind("/"):
        text, _, tag = text.rpartition(":")
    parts = text.split("/")
    host = parts[-3] if len(parts) > 2 else "registry.ollama.ai"
    namespace = parts[-2] if len(parts) > 1 else "library"
    if not re.fullmatch(r"\w[\w-]{0,79}", namespace) or not re.fullmatch(r"\w[\w.-]{0,79}", parts[-1]):
        raise PullFailed("invalid model name")
    return Name(host, namespace, parts[-1], tag)


class Store(Protocol):
    """Where blobs go."""

    part_bytes: int
    is_slow: bool

    def blob(self, digest: str) -> Path: ...


@dataclass
class Download:
    """blobDownload."""

    store: Store
    session: aiohttp.ClientSession
    url: str
    digest: str
    lines: "asyncio.Queue[dict[str, Any]]"
    completed: int = 0

    async def run(self) -> None:
        blob = self.store.blob(self.digest)
        blob.parent.mkdir(parents=True, exist_ok=True)
        records = sorted(blob.parent.glob(f"{blob.name}-partial-*"))
        parts = [json.loads(one.read_text()) for one in records]
        if not parts:
            async with self.session.head(self.url) as reply:
                total = int(reply.headers.get("Content-Length", 0))
            size = max(total // PARTS, self.store.part_bytes)
            parts = [
                {"N": number, "Offset": start, "Size": min(size, total - start), "Completed": 0}
                for number, start in enumerate(range(0, total, size))
            ]
        total = sum(part["Size"] for part in parts)
        self.completed = sum(part["Completed"] for part in parts)
        async with self.session.get(self.url, allow_redirects=False) as reply:
            if "Location" not in reply.headers:
                raise PullFailed("http: no Location header in response")
            direct = str(reply.url.join(reply.url.__class__(reply.headers["Location"])))
        partial = blob.with_name(f"{blob.name}-partial")
        with partial.open("r+b" if partial.exists() else "w+b") as file:
            file.truncate(total)
            turns = asyncio.Semaphore(PARTS)
            work = [asyncio.ensure_future(self._part(direct, file, part, turns)) for part in parts]
            try:
                pending = set(work)
                while pending:
                    done, pending = await asyncio.wait(pending, timeout=TICK_S, return_when="FIRST_EXCEPTION")
                    told = {"status": f"pulling {self.digest[7:19]}", "digest": self.digest, "total": total}
                    self.lines.put_nowait(told | {"completed": self.completed})
                    for one in done:
                        one.result()
            finally:
                for one in work:
                    one.cancel()
                await asyncio.gather(*work, return_exceptions=True)
        for record in blob.parent.glob(f"{blob.name}-partial-*"):
            record.unlink()
        partial.rename(blob)

    async def _part(self, url: str, file: Any, part: dict[str, int], turns: asyncio.Semaphore) -> None:
        record = self.store.blob(self.digest)
        record = record.with_name(f"{record.name}-partial-{part['N']}")
        async with turns:
            for number in range(TRIES):
                if part["Completed"] == part["Size"]:
                    return
                try:
                    await self._fetch(url, file, part)
                except (aiohttp.ClientError, OSError):
                    await asyncio.sleep(0.05 * 2**number)
                finally:
                    record.write_text(json.dumps(part))
            if part["Completed"] != part["Size"]:
                raise PullFailed("max retries exceeded: unexpected EOF")

    async def _fetch(self, url: str, file: Any, part: dict[str, int]) -> None:
        start, stop = part["Offset"] + part["Completed"], part["Offset"] + part["Size"]
        async with self.session.get(url, headers={"Range": f"bytes={start}-{stop - 1}"}) as reply:
            async for data in reply.content.iter_any():
                taken = data[: part["Size"] - part["Completed"]]
                file.seek(part["Offset"] + part["Completed"])
                file.write(taken)
                part["Completed"] += len(taken)
                self.completed += len(taken)
                if self.store.is_slow:
                    await asyncio.sleep(0.05)
