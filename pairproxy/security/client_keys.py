"""Keys by which programs beyond loopback are known: containers, a machine without pairproxy.

A key is ``ppk_``, 32 characters of base32 (160 random bits) and four that check the others. It is shown once,
when it is made; the file holds its SHA-256 only. That one is right because a key is random and long: what
makes passwords slow to try (a salt, a KDF) guards secrets that can be guessed, and would cost each request
100 ms. Whoever reads the file can use none of the keys in it.
"""

import base64
import contextlib
import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from pairproxy.core.errors import StoreError
from pairproxy.security.peer_record import are_patterns
from pairproxy.security.private_files import (
    ensure_private_directory,
    exclusive,
    read_private,
    write_private,
)

MOST_KEYS = 256  # people name them by hand; each request is compared with all
KEYS_FILE = "client_keys.json"
LOCK_FILE = "client_keys.lock"
SECRET_BYTES = 20  # 160 bits: nobody tries them all
_FILE_BYTES = 1024 * 1024  # MOST_KEYS with patterns of usual length are a tenth of that
_CHECK_CHARACTERS = 4
_KEY = re.compile(r"ppk_[a-z2-7]{36}", re.ASCII)
_HASH = re.compile(r"[0-9a-f]{64}", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)


class ClientKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One key, without its secret. ``slots``: of its requests that run at once, None: any number."""

    name: str
    hash: str  # SHA-256 of the key, 64 hexadecimal digits
    added_at: int  # seconds of the epoch
    models: tuple[str, ...] = ()  # patterns of those that it may use; (): all
    slots: int | None = None


class _Content(msgspec.Struct, frozen=True):
    version: int = 1
    keys: tuple[ClientKey, ...] = ()


class KeyNews(NamedTuple):
    """What reading the file anew brought: hashes, for a name may stand for another key now."""

    added: tuple[ClientKey, ...]
    gone: tuple[ClientKey, ...]


def make_key() -> str:
    """A new key, as its client writes it."""
    secret = base64.b32encode(secrets.token_bytes(SECRET_BYTES)).decode().lower()
    return f"ppk_{secret}{_check_of(secret)}"


def judged(shown: str) -> Literal["key", "mistyped", "foreign"]:
    """What a text is by its form: a key (known or not), one with a wrong character, or none of ours."""
    if not shown.startswith("ppk_"):
        return "foreign"
    if _KEY.fullmatch(shown) is None or _check_of(shown[4:-_CHECK_CHARACTERS]) != shown[-_CHECK_CHARACTERS:]:
        return "mistyped"
    return "key"


class ClientKeys:
    """The table of keys and the file behind it. Commands write, a running daemon reads only.

    Methods read and write one small file: milliseconds.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self._keys: tuple[ClientKey, ...] = ()

    def keys(self) -> tuple[ClientKey, ...]:
        """All keys, in the order of their names."""
        return self._keys

    def read(self) -> tuple[ClientKey, ...]:
        """What the file says now; any thread may ask. Raises StoreError."""
        file = self._home / KEYS_FILE
        content = read_private(file, _FILE_BYTES)
        if content is None:
            return ()
        damaged = f"{file} is damaged. Remove it and make new keys with `pairproxy keys add`."
        try:
            found = msgspec.json.decode(content, type=_Content)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise StoreError(_NEWER.format(file) if _is_newer(content) else damaged) from None
        if found.version > 1:
            raise StoreError(_NEWER.format(file))
        is_sound = all(_is_sound(one) for one in found.keys)
        if not is_sound or len(found.keys) > MOST_KEYS or _has_twins(found.keys):
            raise StoreError(damaged)
        return tuple(sorted(found.keys, key=lambda one: one.name))

    def take(self, keys: tuple[ClientKey, ...]) -> KeyNews:
        """Go by these from now on; says what is different."""
        before, self._keys = {one.hash: one for one in self._keys}, keys
        now = {one.hash: one for one in keys}
        return KeyNews(
            added=tuple(one for one in keys if one.hash not in before),
            gone=tuple(one for one in before.values() if one.hash not in now),
        )

    def find(self, shown: str) -> ClientKey | None:
        """The key that was shown. Every key is compared, each in the same time whatever it is."""
        digest = _hash(shown)
        found = None
        for one in self._keys:
            if hmac.compare_digest(one.hash, digest):
                found = one
        return found

    def add(self, name: str, models: tuple[str, ...] = (), slots: int | None = None) -> tuple[str, ClientKey]:
        """Make a key; returns it, which nobody can read again, and what is kept of it. Raises StoreError."""
        if _NAME.fullmatch(name) is None:
            raise StoreError(
                "A key's name has 1 to 64 letters, digits, dots, dashes or underscores, like ci or web-ui."
            )
        if not are_patterns(models):
            raise StoreError("The models of a key are names like qwen2.5:7b or patterns like 'qwen*'.")
        with self._changing():
            if any(one.name == name for one in self._keys):
                raise StoreError(
                    f"There is a key called {name} already. Revoke it first, or choose another name."
                )
            if len(self._keys) >= MOST_KEYS:
                raise StoreError(f"There are {MOST_KEYS} keys already. Revoke one that nobody uses.")
            key = make_key()
            kept = ClientKey(name, _hash(key), int(time.time()), models, slots)
            self._write((*self._keys, kept))
        return key, kept

    def revoke(self, name: str) -> ClientKey:
        """Believe a key no longer; returns what it was. Raises StoreError if there is none of this name."""
        with self._changing():
            found = next((one for one in self._keys if one.name == name), None)
            if found is None:
                known = ", ".join(one.name for one in self._keys)
                raise StoreError(
                    f"There is no key of this name. {f'There is {known}.' if known else NO_KEYS}"
                )
            self._write(tuple(one for one in self._keys if one is not found))
        return found

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        """Nobody else changes the file meanwhile, and what it says is known. Raises StoreError."""
        ensure_private_directory(self._home)
        with exclusive(self._home / LOCK_FILE, refusal=_OTHERS_CHANGE):
            self.take(self.read())
            yield

    def _write(self, keys: tuple[ClientKey, ...]) -> None:
        kept = tuple(sorted(keys, key=lambda one: one.name))
        write_private(
            self._home / KEYS_FILE, msgspec.json.format(msgspec.json.encode(_Content(1, kept))) + b"\n"
        )
        self.take(kept)


def _is_sound(key: ClientKey) -> bool:
    has_form = _NAME.fullmatch(key.name) is not None and _HASH.fullmatch(key.hash) is not None
    return has_form and (key.slots is None or key.slots > 0) and are_patterns(key.models)


def _has_twins(keys: tuple[ClientKey, ...]) -> bool:
    """Whether two have one name, or one secret."""
    return min(len({one.name for one in keys}), len({one.hash for one in keys})) < len(keys)


def _check_of(secret: str) -> str:
    """Four characters that tell a mistyped key from one that is not known: 1 in a million passes."""
    digest = hashlib.sha256(b"pairproxy client key " + secret.encode(errors="replace")).digest()
    return base64.b32encode(digest).decode().lower()[:_CHECK_CHARACTERS]


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode(errors="replace")).hexdigest()


def _is_newer(content: bytes) -> bool:
    """Whether a file that cannot be read says that it is of a later version."""
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        told = msgspec.json.decode(content)
        version = told.get("version") if isinstance(told, dict) else None
        return isinstance(version, int) and version > 1
    return False


NO_KEYS = "There is no key yet: `pairproxy keys add NAME` makes one."
NO_LISTEN = (
    "Keys are taken nowhere yet: set clients.listen in config.toml, for example"
    ' listen = "0.0.0.0:11636" below [clients], and restart the daemon.'
)
_NEWER = "{} was written by a newer pairproxy. Run that one, or move the file away and make new keys."
_OTHERS_CHANGE = "Another pairproxy command changes the keys at this moment. Try again when it is done."
