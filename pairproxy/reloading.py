"""Settings that are read anew while the daemon runs: what takes effect at once, what needs a restart.

No request is dropped by it. What cannot be read changes nothing.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator

import msgspec

from pairproxy.api.schema import SettingsReread
from pairproxy.config import Section, Settings
from pairproxy.core.errors import PairproxyError

_log = logging.getLogger(__name__)

LIVE = frozenset(
    (
        "node.name",
        "peers.static",
        "peers.max_slots",
        "peers.share",
        "peers.on_battery",
        "peers.idle_after_s",
        "peers.idle_cpu",
        "peers.idle_gpu",
        "peers.idle_memory_bytes",
        "routing.policy",
        "routing.prefix_length",
        "routing.concurrency_threshold",
        "routing.catalogue",
        "routing.queue_limit",
        "routing.queue_timeout_s",
        "routing.rescue",
        "routing.continuation",
        "routing.local_only",
        "limits.attempts",
        "limits.node_stale_s",
        "limits.stuck_s",
        "limits.quiet_s",
        "history.keep_days",
        "history.keep_bytes",
        "log.level",
        "log.format",
        "debug.headers",
    )
)
"""What takes effect at once. Ports, engines and other limits are built into what is running."""


class Reloading:
    """Owner of the settings in force. ``read`` reads them (in a thread); ``apply`` puts new ones in force.

    ``apply`` gets settings that differ in LIVE keys only. It raises ConfigError before it changes anything.
    """

    def __init__(
        self, settings: Settings, read: Callable[[], Settings], apply: Callable[[Settings], None]
    ) -> None:
        self.node = ""  # whose they are, for the answer
        self._settings = settings
        self._read = read
        self._apply = apply
        self._one_at_a_time = asyncio.Lock()
        self._wanted = asyncio.Event()

    def want(self) -> None:
        """Let run() read the settings soon. For signal handlers."""
        self._wanted.set()

    async def run(self) -> None:
        """Read the settings whenever it is wanted, until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                await self.reread()
            except PairproxyError as error:
                _log.warning("The settings stay as they are. %s", error.sentence)

    async def reread(self, _: bytes = b"") -> SettingsReread:
        """Read the settings and put in force what can be. Raises ConfigError; they stay as they are then."""
        async with self._one_at_a_time:
            new = await asyncio.to_thread(self._read)
            changed = tuple(differing(self._settings, new))
            applied = tuple(key for key in changed if key in LIVE)
            late = tuple(key for key in changed if key not in LIVE)
            merged = with_live(self._settings, new)
            if applied:
                self._apply(merged)
                self._settings = merged
        _log.info("settings read anew, in force now: %s", ", ".join(applied) or "nothing new")
        if late:
            _log.warning("changed settings, restart to apply: %s", ", ".join(late))
        return SettingsReread(self.node, applied, late)


def differing(old: Settings, new: Settings) -> Iterator[str]:
    """The keys whose values differ, as a person writes them; all of [[engines]] is one."""
    for section in Settings.__struct_fields__:
        before, after = getattr(old, section), getattr(new, section)
        if not isinstance(before, Section):
            if before != after:
                yield section
            continue
        for key in before.__struct_fields__:
            if getattr(before, key) != getattr(after, key):
                yield f"{section}.{key}"


def with_live(old: Settings, new: Settings) -> Settings:
    """The old settings with the new ones' values of LIVE keys."""
    for name in LIVE:
        section, _, key = name.partition(".")
        changed = msgspec.structs.replace(getattr(old, section), **{key: getattr(getattr(new, section), key)})
        old = msgspec.structs.replace(old, **{section: changed})
    return old
