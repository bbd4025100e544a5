"""One frozen Settings: defaults < config.toml < environment (PAIRPROXY_SECTION_KEY) < flags.

Every field stands with its unit, its default and the reason for it. Unknown keys are an error that
names the nearest known one. Bounds on queues, bodies and waits live in Limits.
"""

import difflib
import ipaddress
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec
import platformdirs

from pairproxy.core.errors import ConfigError
from pairproxy.core.knowledge import Rules
from pairproxy.core.policies import POLICIES

EngineKind = Literal["ollama", "lmstudio", "llamacpp", "openai", "embedded", "paced"]
CatalogueKind = Literal["merged", "local"]
LogLevel = Literal["debug", "info", "warning", "error"]
# The upper ends are no limits to anybody: they keep out infinity, and what an engine's integers cannot hold.
Count = Annotated[int, msgspec.Meta(ge=1, le=10**12)]
CountOrNone = Annotated[int, msgspec.Meta(ge=0, le=10**12)]
ContextTokens = Annotated[int, msgspec.Meta(ge=256, le=10**8)]  # below, no system prompt fits
PrefixLength = Annotated[int, msgspec.Meta(ge=256, le=10**8)]  # prompts are told apart by blocks of 256 bytes
Threads = Annotated[int, msgspec.Meta(ge=1, le=1024)]
Above0 = Annotated[float, msgspec.Meta(gt=0, le=1e9)]
From0 = Annotated[float, msgspec.Meta(ge=0, le=1e9)]


class _Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of config.toml."""


class NodeSettings(_Section, frozen=True):
    """[node]: how this machine is called in status and reports. Default: the host name."""

    name: str = ""  # shown to people, never announced on the network; "": the host name


class PacedSettings(_Section, frozen=True):
    """The engine that sleeps as a GPU computes: tokens/s alone, contention, seconds to load."""

    model: str = "paced:1b"  # the name it serves
    prefill: Above0 = 2000.0  # tokens/s alone; a small model on a desktop GPU
    decode: Above0 = 50.0  # tokens/s alone; the same
    beta: From0 = 0.15  # llama.cpp's published curve
    load_s: From0 = 0.0  # to load the model at its first request
    cached_tokens: CountOrNone = 65536  # prompt tokens its prefix cache holds
    fast_forward: Above0 = 1.0  # times as fast in all of the above; 40: what takes minutes is over in seconds


class EngineSettings(_Section, frozen=True):
    """One [[engines]] entry."""

    kind: EngineKind  # found engines are other programs; embedded and paced are ours
    url: str | None = None  # where a found engine answers, e.g. http://127.0.0.1:11534; None: its usual port
    listen: str | None = None  # host:port; None: where its clients look; "": no client port
    slots: Count | None = None  # at most at once; None: what the engine says, else 1
    threads: Threads = 1  # of the embedded engine; 1 leaves the machine usable
    context_tokens: ContextTokens = 4096  # of each slot of the embedded engine: a sub-agent's work
    aliases: dict[str, str] = {}  # "name here" = "name on this engine": the same model, you vouch for it
    paced: PacedSettings = PacedSettings()


class PeerSettings(_Section, frozen=True):
    """[peers]: the paired machines."""

    listen: str = "0.0.0.0:11634"  # TLS 1.3 with both certificates, nothing else
    discovery: bool = True  # mDNS
    static: tuple[str, ...] = ()  # host:port, tried as well
    loopback: bool = False  # private: peers on this machine, for demo and tests only
    state_interval_s: Above0 = 1.0  # heartbeat; a third of the time after which a node gets no new requests


class RoutingSettings(_Section, frozen=True):
    """[routing]: how a node is chosen and how long a request may wait."""

    policy: str = "fastest-finish"  # or another (docs/scheduling.md); the only one that compares seconds
    prefix_length: PrefixLength = 256  # characters hashed by prefix-aware; chats keep these in all turns
    concurrency_threshold: Count = 8  # in flight at a prefix's node (prefix-aware): two rounds of four slots
    catalogue: CatalogueKind = "merged"  # lists of models name the peers' too; local: the engine's, untouched
    queue_limit: Count = 256  # requests; the plan looks at all of them on every event
    queue_timeout_s: Above0 = 600.0  # the clients' own patience: the OpenAI SDKs give up at 600 s
    rescue: bool = True  # what hangs on a slow node is begun anew on a fast one that is idle
    local_only: tuple[str, ...] = ()  # models whose requests never leave this machine; * and ? stand for text


class AdminSettings(_Section, frozen=True):
    """[admin]: own page and API, loopback only."""

    listen: str = "127.0.0.1:11633"  # beside the peer port; nothing known uses it


class Limits(_Section, frozen=True):
    """[limits]: every bound in one place."""

    body_bytes: Count = 256 * 1024 * 1024  # the largest request: many images in base64
    body_deadline_s: Above0 = 30.0  # whole body, plus the time it takes at body_floor
    body_floor_bytes_per_s: Count = 256 * 1024  # slower senders than this hold memory for nothing
    header_bytes: Count = 64 * 1024  # agents send long cookies and tracing headers
    reply_header_bytes: Count = 64 * 1024  # as much as we take from clients
    connections: Count = 512  # open client connections; each costs about 50 kB
    peer_connections: Count = 32  # from one peer
    unauthenticated_connections: Count = 16  # TLS handshakes under way; the oldest gives way to the next
    connect_timeout_s: Above0 = 1.5  # a host that is gone; LAN handshakes take milliseconds
    node_stale_s: Above0 = 3.0  # no state document: no new requests there
    node_lost_s: Above0 = 5.0  # no state document: gone, its requests go elsewhere
    relay_buffer_bytes: Count = 256 * 1024  # written to a slow client before its upstream is paused
    state_document_bytes: Count = 1024 * 1024  # thousands of models; more is hostile or broken
    attempts: Count = 3  # nodes tried before the first body byte


class LogSettings(_Section, frozen=True):
    """[log]: to standard error."""

    level: LogLevel = "info"  # peers that come and go, engines that fail; never a request


class DebugSettings(_Section, frozen=True):
    """[debug]: for looking inside."""

    headers: bool = False  # X-Pairproxy-Node, -Request, -Attempts, -Queue-Seconds on replies


class Settings(_Section, frozen=True):
    """Everything a person can set."""

    node: NodeSettings = NodeSettings()
    engines: tuple[EngineSettings, ...] = ()
    peers: PeerSettings = PeerSettings()
    routing: RoutingSettings = RoutingSettings()
    admin: AdminSettings = AdminSettings()
    limits: Limits = Limits()
    log: LogSettings = LogSettings()
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
            rescue=self.routing.rescue,
        )


def default_home() -> Path:
    """The directory of config.toml, identity, trust and daemon.json (PAIRPROXY_HOME overrides)."""
    override = os.environ.get("PAIRPROXY_HOME")
    return Path(override) if override else Path(platformdirs.user_data_dir("pairproxy", appauthor=False))


def cache_dir() -> Path:
    """Where fetched models are kept (PAIRPROXY_CACHE overrides); shared by all homes of a user."""
    override = os.environ.get("PAIRPROXY_CACHE")
    return Path(override) if override else Path(platformdirs.user_cache_dir("pairproxy", appauthor=False))


def load(
    file: Path | None,
    environment: Mapping[str, str],
    flags: Mapping[str, Any] | None = None,
) -> Settings:
    """Read the settings, ``flags`` nested like the file. Raises ConfigError with the place of the fault."""
    tree: dict[str, Any] = {}
    if file is not None:
        tree = _read_toml(file)
    _refuse_unknown_variables(environment)
    for section, values in _from_environment(environment).items():
        tree[section] = {**tree.get(section, {}), **values}
    for section, values in (flags or {}).items():
        tree[section] = {**tree.get(section, {}), **values} if isinstance(values, Mapping) else values
    _refuse_unknown_keys(tree, file)
    try:
        settings = msgspec.convert(tree, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{file or 'settings'}: {_explained(error)}") from None
    if settings.routing.policy not in POLICIES:
        near = difflib.get_close_matches(settings.routing.policy, POLICIES, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(sorted(POLICIES))}."
        raise ConfigError(f"routing.policy: there is no policy {settings.routing.policy!r}. {hint}")
    return settings


def parse_listen(text: str, key: str) -> tuple[str, int]:
    """Split ``host:port`` (``[v6]:port`` too). Raises ConfigError naming ``key``."""
    host, separator, port = text.rpartition(":")
    if not separator or not port.isdigit() or int(port) > 65535 or not host:
        raise ConfigError(f"{key} = {text!r} is not host:port, for example 127.0.0.1:11434.")
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    """Whether a host (``::1`` as in a socket or ``[::1]`` as in a URL) can be this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as stream:
            return tomllib.load(stream)
    except FileNotFoundError:
        raise ConfigError(
            f"There is no settings file {file}. Leave --config out to use the defaults."
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} is not TOML: {error}.") from None
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}.") from None


def _fields(section: type) -> dict[str, type]:
    return {field.encode_name: field.type for field in msgspec.structs.fields(section)}


def _tables() -> dict[str, type]:
    return {name: kind for name, kind in _fields(Settings).items() if isinstance(kind, type)}


def _from_environment(environment: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for section, kind in _tables().items():
        if not issubclass(kind, _Section):
            continue
        for key, value_kind in _fields(kind).items():
            text = environment.get(f"PAIRPROXY_{section}_{key}".upper())
            if text is not None:
                is_list = value_kind == tuple[str, ...]
                found.setdefault(section, {})[key] = text.split(",") if is_list else text
    return found


def _refuse_unknown_variables(environment: Iterable[str]) -> None:
    """A variable that is mistyped would do nothing in silence."""
    tables = {name: kind for name, kind in _tables().items() if issubclass(kind, _Section)}
    known = {f"PAIRPROXY_{table}_{key}".upper() for table, kind in tables.items() for key in _fields(kind)}
    known |= OTHER_VARIABLES
    for name in sorted(environment):
        if name.startswith("PAIRPROXY_") and name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"Did you mean {near[0]}?" if near else "docs/configuration.md lists those there are."
            raise ConfigError(f"There is no environment variable {name}. {hint}")


def _explained(error: msgspec.ValidationError) -> str:
    """What is wrong, with the key as a person writes it."""
    text = str(error)
    if re.search(r"`kind` - at `\$\.engines\[\d+\]`|`array`, got `object` - at `\$\.engines`", text):
        return _ENTRY
    what, _, path = text.partition(" - at `$.")
    key = re.sub(r"\[[^\]]*\]", "", path.rstrip("`"))
    return f"{key or 'settings'}: {what}. Compare with docs/configuration.md."


def _refuse_unknown_keys(tree: Mapping[str, Any], file: Path | None) -> None:
    where = str(file) if file else "settings"
    _refuse_unknown(tree, _fields(Settings), where, "")
    for section, kind in _tables().items():
        if issubclass(kind, _Section) and isinstance(tree.get(section), Mapping):
            _refuse_unknown(tree[section], _fields(kind), where, f"{section}.")
    entries = tree.get("engines", ())
    for entry in entries if isinstance(entries, list | tuple) else ():
        if isinstance(entry, Mapping):
            _refuse_unknown(entry, _fields(EngineSettings), where, "engines.")


def _refuse_unknown(given: Mapping[str, Any], known: Mapping[str, Any], where: str, prefix: str) -> None:
    for key in given:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"Did you mean {prefix}{near[0]}?" if near else f"Known here: {', '.join(known)}."
            raise ConfigError(f"{where}: there is no setting {prefix}{key}. {hint}")


ENGINE_KINDS: tuple[str, ...] = get_args(EngineKind)
OTHER_VARIABLES = {"PAIRPROXY_HOME", "PAIRPROXY_CACHE", "PAIRPROXY_CLIENTS"}  # the last: of scripts and tests
_ENTRY = (
    "each engine is an entry with two square brackets and a kind, such as\n[[engines]]\n"
    f'kind = "ollama"   # or {", ".join(ENGINE_KINDS[1:])}'
)
