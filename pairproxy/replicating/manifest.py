"""What a model consists of: the list of its blobs, as a peer told it or as it lies on disk.

It is read as Ollama will read it, which is written in Go: keys count whatever their case, in Unicode's sense.
What stands there twice, of which Go takes now the one, now the other, is refused.
"""

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any

from pairproxy.core.errors import CopyFailed

MANIFEST_BYTES = 1024 * 1024  # of one with thousands of blobs; most are 1 kB
MOST_BLOBS = 4096  # models kept as single tensors have up to two thousand
MOST_BYTES = 4 * 1024**4  # of one model; the largest that is published has half of it
DIGEST = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)
_TYPE = re.compile(
    r"application/vnd\.(ollama\.image\.[a-z0-9.+-]{1,64}|docker\.container\.image\.v1\+json)", re.ASCII
)
_TENSOR = "application/vnd.ollama.image.tensor"


@dataclass(frozen=True, slots=True)
class Manifest:
    """``content``: the bytes of the file. ``sizes``: digest -> bytes, each blob once, in the file's order.

    ``config``: the digest of the blob that says what kind of model it is; None: there is none.
    """

    content: bytes
    sizes: dict[str, int]
    config: str | None
    is_tensors: bool
    """Its weights are many blobs; Ollama pulls such a model in another way."""

    @property
    def digest(self) -> str:
        """64 hexadecimal digits, as Ollama lists the model."""
        return hashlib.sha256(self.content).hexdigest()

    @property
    def total_bytes(self) -> int:
        """Of all blobs."""
        return sum(self.sizes.values())


def read_manifest(content: bytes) -> Manifest:
    """Take a manifest apart. Raises CopyFailed for one that is too large, or is none of Ollama's."""
    if len(content) > MANIFEST_BYTES:
        raise CopyFailed(f"The list of this model's parts is longer than {MANIFEST_BYTES} bytes: not copied.")
    try:
        found = _decoded(content)
    except (ValueError, RecursionError):
        raise _none() from None
    if not isinstance(found, dict) or not isinstance(found.get("layers"), list):
        raise _none()
    entries = [*found["layers"], *([found["config"]] if found.get("config") else [])]
    if not 0 < len(entries) <= MOST_BLOBS:
        raise CopyFailed(f"This model has none, or more than {MOST_BLOBS} parts: not copied.")
    sizes: dict[str, int] = {}
    for entry in entries:
        digest, size = _blob(entry)
        if sizes.setdefault(digest, size) != size:
            raise _none()
    if sum(sizes.values()) > MOST_BYTES:
        raise CopyFailed("This model says that it is larger than any there is: not copied.")
    config = found["config"]["digest"] if found.get("config") else None
    return Manifest(content, sizes, config, any(entry["mediatype"] == _TENSOR for entry in entries))


def check_config(manifest: Manifest, content: bytes) -> None:
    """Raise CopyFailed for a model that does not run where it lies: prompts would go where it says."""
    if f"sha256:{hashlib.sha256(content).hexdigest()}" != manifest.config:
        raise CopyFailed(
            "What came is not what the other machine's list says: the hash differs. Nothing was copied."
        )
    try:
        found = _decoded(content)
    except (ValueError, RecursionError):
        raise _none() from None
    if not isinstance(found, dict) or found.get("remote_host") or found.get("remote_model"):
        raise CopyFailed("This model runs on another host, to which it would send your prompts: not copied.")


def _decoded(content: bytes) -> Any:
    """The document, its keys folded. Raises ValueError, RecursionError."""
    return json.loads(content.decode(), object_pairs_hook=_folded)


def _folded(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = {key.casefold(): value for key, value in pairs}
    if len(found) < len(pairs):
        raise ValueError("a key stands there twice")
    return found


def _blob(entry: Any) -> tuple[str, int]:
    if not isinstance(entry, dict):
        raise _none()
    kind, digest, size = entry.get("mediatype"), entry.get("digest"), entry.get("size")
    if not isinstance(kind, str) or not _TYPE.fullmatch(kind) or "urls" in entry:
        raise CopyFailed(
            "A part of this model is of a kind that is not copied, or lies elsewhere: not copied."
        )
    if not isinstance(digest, str) or not DIGEST.fullmatch(digest):
        raise _none()
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= MOST_BYTES:
        raise _none()
    return digest, size


def _none() -> CopyFailed:
    return CopyFailed(
        "The list of this model's parts is not one of Ollama's: not copied. `ollama pull` it instead."
    )
