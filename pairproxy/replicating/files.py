"""The files of an Ollama: which manifest a name has, and bytes of a blob. For a thread: these calls block.

Only two kinds of file are ever opened: the manifest of a name whose four parts hold no separator, and a blob
whose name is the hash that this manifest gives it. Neither may be a link; no path comes from another machine.
"""

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pairproxy.core.errors import CopyFailed
from pairproxy.replicating.manifest import MANIFEST_BYTES, Manifest, read_manifest
from pairproxy.replicating.names import FullName

_FROM = re.compile(r'^FROM "?(.+)[/\\]sha256-[0-9a-f]{64}"?\s*$', re.MULTILINE | re.ASCII)
_USUAL = (
    "~/.ollama/models",  # the apps, Homebrew, a terminal's `ollama serve`
    "/usr/share/ollama/.ollama/models",  # install.sh on Linux
    "/var/lib/ollama",  # packages of distributions
    "/var/lib/ollama/models",
)


@dataclass(frozen=True, slots=True)
class Held:
    """A model that lies here: its manifest, and the directory of its blobs."""

    manifest: Manifest
    blobs: Path


def directories(modelfile: str) -> Iterator[Path]:
    """Where the models may lie, the likeliest first. ``modelfile``: as the engine shows it."""
    for match in _FROM.finditer(modelfile):
        if (blobs := Path(match[1])).name == "blobs":
            yield blobs.parent
    if here := os.environ.get("OLLAMA_MODELS"):
        yield Path(here)
    yield from (Path(usual).expanduser() for usual in _USUAL)


def read_held(modelfile: str, name: FullName, digest: str) -> Held:
    """Find a model by its name and by the ``digest`` of its manifest (64 digits). Raises CopyFailed."""
    is_closed = False
    for directory in dict.fromkeys(directories(modelfile)):
        try:
            content = _read(
                directory / "manifests", directory / "manifests" / name.path, 0, MANIFEST_BYTES + 1
            )
        except PermissionError:
            is_closed = True
            continue
        except OSError:
            continue
        manifest = read_manifest(content)
        if manifest.digest == digest:
            return Held(manifest, directory / "blobs")
    raise CopyFailed(_CLOSED if is_closed else _NOT_FOUND)


def read_part(held: Held, digest: str, start: int, count: int) -> bytes:
    """Bytes of a blob of this model. Raises CopyFailed for those that there are not, or cannot be read."""
    size = held.manifest.sizes.get(digest)
    if size is None or start < 0 or count < 0 or start + count > size:
        raise CopyFailed("This model has no such part.")
    try:
        part = _read(held.blobs, held.blobs / digest.replace(":", "-"), start, count)
    except PermissionError:
        raise CopyFailed(_CLOSED) from None
    except OSError:
        raise CopyFailed(_DAMAGED) from None
    if len(part) != count:
        raise CopyFailed(_DAMAGED)
    return part


def _read(within: Path, path: Path, start: int, count: int) -> bytes:
    """Raises OSError, also for what is no regular file or lies elsewhere."""
    if not path.resolve(strict=True).is_relative_to(within.resolve()):
        raise FileNotFoundError(path)
    flags = (
        os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
    )
    file = os.open(path, flags)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise FileNotFoundError(path)
        os.lseek(file, start, os.SEEK_SET)
        parts = bytearray()
        while len(parts) < count and (read := os.read(file, count - len(parts))):
            parts += read
        return bytes(parts)
    finally:
        os.close(file)


_CLOSED = (
    "pairproxy may not read the files of Ollama on this machine. On this machine,"
    " `sudo usermod -aG ollama USER` with the user that pairproxy runs as, log in anew, restart pairproxy."
)
_NOT_FOUND = (
    "pairproxy does not find the files of this model on this machine: its Ollama may run in a container, or"
    " keep them elsewhere (then set OLLAMA_MODELS for pairproxy on this machine)."
)
_DAMAGED = "A file of this model is missing or damaged on this machine: there, `ollama pull` it anew."
