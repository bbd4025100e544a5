"""What was learned of this machine's speeds and of the length of replies, kept for the daemon's next life.

One private file in the home directory. It holds numbers and the names of models, and nothing of any prompt.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated

import msgspec

from pairproxy.clock import today
from pairproxy.config import EngineSettings
from pairproxy.core.costs import Costs
from pairproxy.core.documents import EngineReport
from pairproxy.core.errors import StoreError
from pairproxy.core.lengths import REMEMBERED
from pairproxy.core.models import ModelName
from pairproxy.core.speeds import SpeedFacts, SpeedKey, keys_of
from pairproxy.hardware import device
from pairproxy.security.private_files import read_private, write_private

_log = logging.getLogger(__name__)

FILE = "speeds.json"
SCHEMA = 1
SAVE_S = 30.0  # at most so often; what is lost in a crash is learned again in minutes
MOST_BYTES = 2 * 1024 * 1024  # twice what the entries below can take
MOST_SPEEDS = 256  # entries; dozens of models on a few versions of an engine
MOST_MODELS = 64  # whose lengths are kept
MOST_DAYS = 90  # since something was learned: a model that nobody has used in a season
_NOT_KEPT = -1  # of the count of changes: what is known is not in the file, though nothing new was learned
BY_SETTING = ("paced",)  # kinds whose speed is a setting: nothing to know

Tokens = Annotated[int, msgspec.Meta(ge=1, le=10**9)]


class KeptSpeed(msgspec.Struct, frozen=True):
    """One replica on one engine. ``day``: when something was last learned, in days since 1970."""

    device: str
    day: int
    key: SpeedKey
    facts: SpeedFacts


class KeptLengths(msgspec.Struct, frozen=True):
    """The last replies of one model, in tokens."""

    day: int
    model: ModelName
    tokens: Annotated[tuple[Tokens, ...], msgspec.Meta(max_length=REMEMBERED)]


class KeptFile(msgspec.Struct, frozen=True):
    """All of the file."""

    schema: int
    speeds: tuple[KeptSpeed, ...] = ()
    lengths: tuple[KeptLengths, ...] = ()


class _Schema(msgspec.Struct, frozen=True):
    schema: int


class SpeedStore:
    """Gives ``costs`` what was kept, and keeps what it learns. ``today`` tells days since 1970."""

    def __init__(self, home: Path, costs: Costs, device: str, today: Callable[[], int]) -> None:
        self._path = home / FILE
        self._costs = costs
        self._device = device
        self._today = today
        self._kept = KeptFile(SCHEMA)
        self._changes = costs.changes
        self._complaint = ""

    @classmethod
    def here(cls, home: Path, costs: Costs, engines: Iterable[EngineSettings]) -> "SpeedStore":
        """Make one for this machine; the embedded engine is another with other threads."""
        threads = (f", {one.threads} threads" for one in engines if one.kind == "embedded")
        return cls(home, costs, device() + "".join(threads), today)

    def __enter__(self) -> None:
        self.load()

    def __exit__(self, *_: object) -> None:
        self.save()

    def load(self) -> None:
        """Read the file, before the engines are told of. One that cannot be used is said so, once."""
        try:
            content = read_private(self._path, MOST_BYTES)
            kept = KeptFile(SCHEMA) if content is None else _decoded(content)
        except StoreError as error:
            self._complain(f"{error} What was known of speeds is learned anew.")
            return
        except (msgspec.MsgspecError, UnicodeDecodeError):
            self._complain(f"{self._path} is not what this version writes: speeds are learned anew.")
            return
        oldest = self._today() - MOST_DAYS
        self._kept = KeptFile(
            SCHEMA,
            tuple(one for one in kept.speeds if one.day >= oldest and one.facts.is_possible)[:MOST_SPEEDS],
            tuple(one for one in kept.lengths if one.day >= oldest)[:MOST_MODELS],
        )
        here = [one for one in self._kept.speeds if one.device == self._device]
        self._costs.restore((one.key, one.facts) for one in sorted(here, key=lambda one: one.day))
        for one in self._kept.lengths:
            self._costs.lengths.restore(one.model, one.tokens)

    def knows(self, report: EngineReport) -> bool:
        """Whether the speeds of all that an engine lists were measured before."""
        keys = tuple(keys_of(report))
        return bool(keys) and all(map(self._costs.knows, keys))

    async def run(self) -> None:
        """Save what changed, until cancelled."""
        while True:
            await asyncio.sleep(SAVE_S)
            content = self._content()
            if content is not None:
                await asyncio.to_thread(self._write, content)

    def save(self) -> None:
        """Save what changed, at once."""
        content = self._content()
        if content is not None:
            self._write(content)

    def _content(self) -> bytes | None:
        """The file as it must be now; None if nothing was learned since it was made."""
        if self._changes == self._costs.changes:
            return None
        self._changes = self._costs.changes
        self._kept = KeptFile(SCHEMA, self._speeds(), self._lengths())
        return msgspec.json.encode(self._kept)

    def _speeds(self) -> tuple[KeptSpeed, ...]:
        before = {(one.device, one.key): one for one in self._kept.speeds}
        for key, facts in self._costs.speeds().items():
            known = before.get((self._device, key))
            if key.kind not in BY_SETTING and (known is None or known.facts != facts):
                before[self._device, key] = KeptSpeed(self._device, self._today(), key, facts)
        return tuple(sorted(before.values(), key=lambda one: -one.day)[:MOST_SPEEDS])

    def _lengths(self) -> tuple[KeptLengths, ...]:
        before = {one.model: one for one in self._kept.lengths}
        for model, tokens in self._costs.lengths.models().items():
            if model not in before or before[model].tokens != tokens:
                before[model] = KeptLengths(self._today(), model, tokens)
        return tuple(sorted(before.values(), key=lambda one: -one.day)[:MOST_MODELS])

    def _write(self, content: bytes) -> None:
        try:
            write_private(self._path, content)
        except StoreError as error:
            self._changes = _NOT_KEPT
            self._complain(f"{error} Speeds that are learned now will not be known after a restart.")
            return
        if self._complaint:
            self._complaint = ""
            _log.info("%s is written again.", self._path)

    def _complain(self, sentence: str) -> None:
        if sentence != self._complaint:
            self._complaint = sentence
            _log.warning("%s", sentence)


def _decoded(content: bytes) -> KeptFile:
    if msgspec.json.decode(content, type=_Schema).schema != SCHEMA:
        raise msgspec.ValidationError("another schema")
    return msgspec.json.decode(content, type=KeptFile)
