"""One frozen Settings. Every field stands with its unit, its default and the reason for it.

Bounds on queues, bodies and waits live in Limits. How they are read: pairproxy.loading.
"""

import ipaddress
import os
from pathlib import Path
from typing import Annotated, Literal, get_args
from urllib.parse import urlsplit

import msgspec
import platformdirs

from pairproxy.core.errors import ConfigError
from pairproxy.core.rules import Rules

EngineKind = Literal["ollama", "lmstudio", "llamacpp", "openai", "embedded", "paced"]
Share = Literal["always", "idle", "never"]
CatalogueKind = Literal["merged", "local"]
LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["text", "json"]
# The upper ends are no limits to anybody: they keep out infinity, and what an engine's integers cannot hold.
Count = Annotated[int, msgspec.Meta(ge=1, le=10**12)]
CountOrNone = Annotated[int, msgspec.Meta(ge=0, le=10**12)]
ContextTokens = Annotated[int, msgspec.Meta(ge=256, le=10**8)]  # below, no system prompt fits
PrefixLength = Annotated[int, msgspec.Meta(ge=256, le=10**8)]  # prompts are told apart by blocks of 256 bytes
HistoryBytes = Annotated[int, msgspec.Meta(ge=8 * 1024 * 1024, le=10**12)]  # 4 MiB of it are SQLite's reserve
Threads = Annotated[int, msgspec.Meta(ge=1, le=1024)]
Part = Annotated[float, msgspec.Meta(gt=0, le=1)]
Above0 = Annotated[float, msgspec.Meta(gt=0, le=1e9)]
From0 = Annotated[float, msgspec.Meta(ge=0, le=1e9)]


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of config.toml."""


class NodeSettings(Section, frozen=True):
    """[node]: how this machine is called in status and reports. Default: the host name."""

    name: str = ""  # shown to people, never announced on the network; "": the host name


class PacedSettings(Section, frozen=True):
    """The engine that sleeps as a GPU computes: tokens/s alone, contention, seconds to load."""

    model: str = "paced:1b"  # the name it serves
    prefill: Above0 = 2000.0  # tokens/s alone; a small model on a desktop GPU
    decode: Above0 = 50.0  # tokens/s alone; the same
    beta: From0 = 0.15  # llama.cpp's published curve
    load_s: From0 = 0.0  # to load the model at its first request
    cached_tokens: CountOrNone = 65536  # prompt tokens its prefix cache holds
    fast_forward: Above0 = 1.0  # times as fast in all of the above; 40: what takes minutes is over in seconds


class EngineSettings(Section, frozen=True):
    """One [[engines]] entry."""

    kind: EngineKind  # found engines are other programs; embedded and paced are ours
    url: str | None = None  # where a found one answers, e.g. http://127.0.0.1:11534; None: its known ports
    listen: str | None = None  # host:port; None: where its clients look; "": no client port
    slots: Count | None = None  # at most at once; None: what the engine says, else 1
    threads: Threads = 1  # of the embedded engine; 1 leaves the machine usable
    context_tokens: ContextTokens = 4096  # of each slot of the embedded engine: a sub-agent's work
    aliases: dict[str, str] = {}  # "name here" = "name on this engine": the same model, you vouch for it
    paced: PacedSettings = PacedSettings()


class PeerSettings(Section, frozen=True):
    """[peers]: the paired machines."""

    listen: str = "0.0.0.0:11634"  # TLS 1.3 with both certificates, nothing else
    discovery: bool = True  # mDNS
    static: tuple[str, ...] = ()  # host or host:port, tried as well; names too
    loopback: bool = False  # private: peers on this machine, for demo and tests only
    max_slots: Count | None = None  # of this node that each peer may hold at once; None: all
    share: Share = "always"  # whether peers get slots; idle: while its owner does not use it; never: none
    on_battery: bool = False  # whether they get some while this machine lives on its battery
    idle_after_s: Above0 = 120.0  # without any use, before idle offers: a pause to read is no absence
    idle_cpu: Part = 0.2  # of all cores: from here on other programs are its owner's; desktops idle at 5 %
    idle_gpu: Part = 0.2  # of a card, the same; drawing a desktop takes less
    idle_memory_bytes: CountOrNone = 10**9  # available, or nothing is offered: below, systems begin to swap
    state_interval_s: Above0 = 1.0  # heartbeat; a third of the time after which a node gets no new requests


class ClientSettings(Section, frozen=True):
    """[clients]: programs that cannot reach loopback: containers, a machine without pairproxy."""

    listen: str = ""  # host:port, TLS and a key with every request (docs/containers.md); "": no such port
    names: tuple[str, ...] = ()  # by which they call this machine besides its usual ones: in its certificate


class RoutingSettings(Section, frozen=True):
    """[routing]: how a node is chosen and how long a request may wait."""

    policy: str = "fastest-finish"  # or another (docs/scheduling.md); the only one that compares seconds
    prefix_length: PrefixLength = 256  # characters hashed by prefix-aware; chats keep these in all turns
    concurrency_threshold: Count = 8  # in flight at a prefix's node (prefix-aware): two rounds of four slots
    catalogue: CatalogueKind = "merged"  # lists of models name the peers' too; local: the engine's, untouched
    queue_limit: Count = 256  # requests; the plan looks at all of them on every event
    queue_timeout_s: Above0 = 600.0  # the clients' own patience: the OpenAI SDKs give up at 600 s
    rescue: bool = True  # what hangs on a slow node is begun anew on a fast one that is idle
    continuation: bool = False  # a stream of text that loses its node goes on at another; set it on all nodes
    local_only: tuple[str, ...] = ()  # models whose requests never leave this machine; * and ? stand for text


class AdminSettings(Section, frozen=True):
    """[admin]: own page and API, loopback only."""

    listen: str = "127.0.0.1:11633"  # beside the peer port; nothing known uses it


class Limits(Section, frozen=True):
    """[limits]: every bound in one place."""

    body_bytes: Count = 256 * 1024 * 1024  # the largest request: many images in base64
    body_deadline_s: Above0 = 30.0  # whole body, plus the time it takes at body_floor
    body_floor_bytes_per_s: Count = 256 * 1024  # slower senders than this hold memory for nothing
    peer_body_bytes: Count = (
        64 * 1024 * 1024
    )  # the largest request of a peer; larger ones run where they came
    header_bytes: Count = 64 * 1024  # agents send long cookies and tracing headers
    reply_header_bytes: Count = 64 * 1024  # as much as we take from clients
    connections: Count = 512  # open client connections; each costs about 50 kB
    peer_connections: Count = 32  # from one peer; with more than 25 slots here five for every four of them
    unauthenticated_connections: Count = 16  # TLS handshakes under way; the oldest gives way to the next
    connect_timeout_s: Above0 = 1.5  # a host that is gone; LAN handshakes take milliseconds
    node_stale_s: Above0 = 3.0  # no state document: no new requests there
    node_lost_s: Above0 = 5.0  # no state document: gone, its requests go elsewhere
    relay_buffer_bytes: Count = 256 * 1024  # written to a slow client before its upstream is paused
    state_document_bytes: Count = 1024 * 1024  # thousands of models; more is hostile or broken
    attempts: Count = 3  # nodes tried before the first body byte
    stuck_s: Above0 = 60.0  # no first byte, also for 4 times what was expected: another node may have it
    quiet_s: Above0 = 120.0  # nothing in the middle of a peer's stream; the slowest token takes seconds
    gone_s: Above0 = 30.0  # the same two, where the engine does not answer its own node either
    reply_bytes: Count = 256 * 1024 * 1024  # of one reply, which might never end; real ones hold a few MB
    client_stall_s: Above0 = 60.0  # a client that takes nothing for so long holds an engine for nobody

    def body_time_s(self, size: int) -> float:
        """How long a body of ``size`` bytes may take to come, in seconds."""
        return max(self.body_deadline_s, size / self.body_floor_bytes_per_s)


class HistorySettings(Section, frozen=True):
    """[history]: what ended, in history.db of the home directory: never a word of a prompt or a reply."""

    keep_days: CountOrNone = 90  # a season, to compare with; 0: nothing is kept, what was there is removed
    keep_bytes: HistoryBytes = 64 * 1024 * 1024  # of its files together, some 60,000 requests; the oldest go
    prompts: bool = False  # cannot be anything else: text is never kept, and this key is here to say so

    def __post_init__(self) -> None:
        """Refuse what there is not."""
        if self.prompts:
            raise ValueError("prompts are never kept, leave `prompts` out")


class LogSettings(Section, frozen=True):
    """[log]: to standard error."""

    level: LogLevel = "info"  # a line for each request, peers that come and go; never a word of a prompt
    format: LogFormat = "text"  # for people; json: an object a line, for programs that collect logs


class TracingSettings(Section, frozen=True):
    """[tracing]: spans of requests and attempts for OpenTelemetry; needs `pairproxy[tracing]`."""

    endpoint: str = ""  # of a collector (OTLP over HTTP), http://127.0.0.1:4318; "": none is told


class DebugSettings(Section, frozen=True):
    """[debug]: for looking inside."""

    headers: bool = False  # X-Pairproxy-Node, -Request, -Attempts, -Queue-Seconds on replies


class Settings(Section, frozen=True):
    """Everything a person can set."""

    node: NodeSettings = NodeSettings()
    engines: tuple[EngineSettings, ...] = ()
    peers: PeerSettings = PeerSettings()
    clients: ClientSettings = ClientSettings()
    routing: RoutingSettings = RoutingSettings()
    admin: AdminSettings = AdminSettings()
    history: HistorySettings = HistorySettings()
    limits: Limits = Limits()
    log: LogSettings = LogSettings()
    tracing: TracingSettings = TracingSettings()
    debug: DebugSettings = DebugSettings()

    def rules(self) -> Rules:
        """What the scheduler goes by."""
        return Rules(
            policy=self.routing.policy,
            prefix_length=self.routing.prefix_length,
            concurrency_threshold=self.routing.concurrency_threshold,
            queue_limit=self.routing.queue_limit,
            queue_timeout_s=self.routing.queue_timeout_s,
            attempts=self.limits.attempts,
            local_only=self.routing.local_only,
            stale_s=self.limits.node_stale_s,
            stuck_s=self.limits.stuck_s,
            quiet_s=self.limits.quiet_s,
            gone_s=self.limits.gone_s,
            rescue=self.routing.rescue,
            continuation=self.routing.continuation,
        )


def default_home() -> Path:
    """The directory of config.toml, identity, trust and daemon.json (PAIRPROXY_HOME overrides)."""
    override = os.environ.get("PAIRPROXY_HOME")
    return Path(override) if override else Path(platformdirs.user_data_dir("pairproxy", appauthor=False))


def cache_dir() -> Path:
    """Where fetched models are kept (PAIRPROXY_CACHE overrides); shared by all homes of a user."""
    override = os.environ.get("PAIRPROXY_CACHE")
    return Path(override) if override else Path(platformdirs.user_cache_dir("pairproxy", appauthor=False))


def parse_listen(text: str, key: str) -> tuple[str, int]:
    """Split ``host:port`` (``[v6]:port`` too). Raises ConfigError naming ``key``."""
    host, separator, port = text.rpartition(":")
    if not separator or not port.isdigit() or int(port) > 65535 or not host:
        raise ConfigError(f"{key} = {text!r} is not host:port, for example 127.0.0.1:11434.")
    return host.strip("[]"), int(port)


ODD = " \\"
"""In no URL; who finds a host in it, and who connects to it, do not agree where the host ends."""


def check_endpoint(text: str, key: str) -> None:
    """Raises ConfigError naming ``key`` unless a text is a URL; does not repeat it: some hold keys."""
    try:
        parts = urlsplit(text)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    if not is_url or not text.isprintable() or any(one in text for one in ODD):
        raise ConfigError(f"{key} is not a URL like http://127.0.0.1:4318.")


def is_loopback(host: str) -> bool:
    """Whether a host (``::1`` as in a socket or ``[::1]`` as in a URL) can be this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False


ENGINE_KINDS: tuple[str, ...] = get_args(EngineKind)
