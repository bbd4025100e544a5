"""Names of models as Ollama takes them apart: where the manifest lies, what a copy is called meanwhile."""

import re
import secrets
import sys
from dataclasses import dataclass
from pathlib import PurePosixPath

from pairproxy.core.errors import CopyFailed
from pairproxy.core.replicas import CLOUD, canonical_name, source_of
from pairproxy.interfaces import HALF_COPIED

NAME_CHARACTERS = 256
# types/model/name.go of Ollama, without the characters that would lead out of a directory
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,349}", re.ASCII)
_NAMESPACE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,79}", re.ASCII)
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,79}", re.ASCII)
_LEFT = re.compile(rf"(127\.[0-9.]{{5,11}})(?::([0-9]{{1,5}}))?/{HALF_COPIED}[0-9a-f]{{32}}/", re.ASCII)


@dataclass(frozen=True, slots=True)
class FullName:
    """The four parts of a name, defaults filled in, in their own spelling."""

    host: str
    namespace: str
    model: str
    tag: str

    @property
    def path(self) -> PurePosixPath:
        """Of the manifest, below the directory of all of them."""
        return PurePosixPath(self.host, self.namespace, self.model, self.tag)


def full_name(text: str) -> FullName:
    """Take a name apart. Raises CopyFailed for one that is none by Ollama's rule, or is a cloud's."""
    name = text.strip()
    if len(name) > NAME_CHARACTERS or source_of(name) == CLOUD:
        raise CopyFailed("Only models that lie on a machine can be copied, not those of a cloud.")
    colon = name.rfind(":")
    tag = "latest"
    if colon > name.rfind("/"):
        name, tag = name[:colon], name[colon + 1 :]
    parts = name.split("/")
    host = parts[0] if len(parts) == 3 else "registry.ollama.ai"
    namespace = parts[-2] if len(parts) > 1 else "library"
    kinds = ((_HOST, host), (_NAMESPACE, namespace), (_PART, parts[-1]), (_PART, tag))
    if len(parts) > 3 or not all(kind.fullmatch(part) for kind, part in kinds):
        raise CopyFailed("That is no name of a model of Ollama. `pairproxy models` lists those there are.")
    return FullName(host, namespace, parts[-1], tag)


def temporary_namespace() -> str:
    """One that nobody guesses: other users of this machine can ask its loopback ports as well."""
    return HALF_COPIED + secrets.token_hex(16)


def left_over(listed: str) -> tuple[str, int] | None:
    """(host, port) of the registry that a half copied model came from; None: it is no such model."""
    match = _LEFT.match(listed)
    return (match[1], int(match[2] or 80)) if match else None


def is_same_name(one: str, other: str) -> bool:
    """Whether Ollama takes both for one."""
    return canonical_name(one) == canonical_name(other)


def has_colons_in_paths() -> bool:
    """Whether a directory may be called ``127.0.0.1:5000``, as Ollama calls that of a registry."""
    return sys.platform != "win32"
