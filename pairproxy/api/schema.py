"""The JSON of the admin port. Seconds end in ``_s``, tokens in ``_tokens``. Adding is free, renaming not."""

import msgspec

from pairproxy.api.offering import OfferStatus
from pairproxy.api.ports import PortStatus
from pairproxy.core.accounting.report import RunReport
from pairproxy.core.accounting.timeline import Timeline
from pairproxy.core.accounting.verdict import Verdict
from pairproxy.core.whatif.recording import Recording


class ReplicaStatus(msgspec.Struct, frozen=True):
    """One model on one engine. Rates are tokens/s of a request running alone, as measured or assumed."""

    model: str
    identity: str
    is_loaded: bool
    context_tokens: int | None
    prefill_tokens_per_s: float
    decode_tokens_per_s: float
    continues: bool = False  # whether it goes on with replies that lost their node (routing.continuation)


class EngineStatus(msgspec.Struct, frozen=True):
    """One engine of a node."""

    engine: str
    kind: str
    version: str
    slots: int
    in_flight: int  # of all origins: as the node last said, at least those that run there for this one
    replicas: tuple[ReplicaStatus, ...]
    port: int | None = None  # of this node's client port for it
    is_up: bool = True  # false: it does not answer; the rest is what it was
    foreign: int = 0  # slots not offered, for somebody uses the machine beside us; ``slots`` is without them


class NodeStatus(msgspec.Struct, frozen=True):
    """A node: this one, or a paired one. ``age_s`` is that of its last state document."""

    node: str
    name: str
    is_self: bool
    is_up: bool
    engines: tuple[EngineStatus, ...]
    found_by: str | None = None
    address: str | None = None
    age_s: float | None = None
    problem: str | None = None
    models_differ: tuple[str, ...] = ()  # names that mean another content there than here: never mixed
    tokens_per_s: float = 0.0  # output tokens that it makes now, of all requests this node knows of
    recent_tokens_per_s: tuple[float, ...] = ()  # the same, a value a second, the oldest first
    hears_us: bool | None = None  # whether this peer listens to this node now; None: this node itself
    version: str = ""  # of pairproxy there; "": it does not say
    clock_ahead_s: float | None = None  # its wall clock against this one's, to a second or two; None: unknown
    withheld: str = ""  # why it offers no slot to its peers (core.documents.Withheld); "": it does
    withheld_why: str = ""  # the same for a person: of a peer half a sentence, of this node a whole one


class RunningStatus(msgspec.Struct, frozen=True):
    """A request that runs now; ``age_s`` counts from its dispatch, ``ttft_s`` from its arrival."""

    request: str
    model: str
    node: str | None
    engine: str | None
    age_s: float
    has_first_byte: bool
    attempt: int = 1
    queue_s: float = 0.0
    ttft_s: float | None = None  # None: no byte yet
    run: str | None = None  # as in Report
    origin: str | None = None  # the peer it came from
    prompt_tokens: int = 0  # as estimated
    output_tokens: int = 0  # so far, about


class WaitingStatus(msgspec.Struct, frozen=True):
    """A request that waits here for a place, the first to go first."""

    request: str
    model: str
    age_s: float
    run: str | None = None
    is_local: bool = False  # it may run on this machine only


class RunProgress(msgspec.Struct, frozen=True):
    """A run of which something runs or waits, or did a moment ago and may go on.

    ``speedup`` is of its requests that ended; None: unknown.
    """

    run: str
    age_s: float
    requests: int  # all that arrived
    ended: int
    running: int
    waiting: int
    slots: int
    waves: int  # ceil(requests / slots)
    waves_done: float  # ended / slots
    bound_waves: float
    speedup: float | None = None
    bound_provable: float | None = None
    is_loop: bool = False  # requests came when others had ended: more may come, as an agent's steps do


class Status(msgspec.Struct, frozen=True):
    """GET /status."""

    version: str
    node: str
    name: str
    uptime_s: float
    policy: str
    is_draining: bool
    queue_length: int
    nodes: tuple[NodeStatus, ...]
    running: tuple[RunningStatus, ...]
    requests_done: int  # those whose outcome is done
    discovery_problem: str | None
    unpaired: dict[str, str]
    last_run: RunReport | None
    loop_lag_s: float = 0.0  # the longest that the daemon's event loop was held up in the last minute
    peer_port: int | None = None  # on which paired machines are heard; None: none is paired yet
    outcomes: dict[str, int] = {}  # how many of the requests in memory ended so, this node's and its peers'
    waiting: tuple[WaitingStatus, ...] = ()
    current_run: RunProgress | None = None  # the one that began last
    at_unix: float = 0.0  # seconds of the epoch, when all this was so
    history_problem: str | None = None  # why history is not written now
    limit: str = ""  # what holds requests up now, in one sentence (api.limiting)
    ports: tuple[PortStatus, ...] = ()  # of this node's clients
    offer: OfferStatus = OfferStatus()  # whether this node offers slots to its peers


class Candidate(msgspec.Struct, frozen=True):
    """A place as it was priced, from the decision on; ``finish_s`` is wait + load + prefill + decode."""

    node: str
    engine: str
    finish_s: float
    wait_s: float
    load_s: float
    prefill_s: float
    decode_s: float
    margin_s: float
    affinity_s: float
    delay_s: float
    chain_s: float
    cached_tokens: int
    in_flight: int
    slots: int
    alone_s: float = 0.0  # what decode_s would be with no company
    read_s: float = 0.0  # what prefill_s would be if no other prompt was read meanwhile


class AttemptStory(msgspec.Struct, frozen=True):
    """One attempt: why there, what was predicted, what happened. Times count from the request's arrival."""

    number: int
    node: str
    engine: str
    reason: str
    policy: str | None  # None, and no candidates: the decision is no longer kept
    end: str
    dispatched_s: float
    first_byte_s: float | None
    ended_s: float
    predicted_first_byte_s: float | None
    predicted_end_s: float | None
    predicted_cached_tokens: int | None
    candidates: tuple[Candidate, ...]
    delivered_tokens: int = 0  # of a reply that was broken off here and may have gone on elsewhere


class Explanation(msgspec.Struct, frozen=True):
    """GET /requests/ID: how a request was decided. ``error`` says why it was refused or failed."""

    request: str
    model: str
    dialect: str
    path: str
    outcome: str
    error: str
    age_s: float  # since it ended
    run: str | None
    chain: str
    origin: str | None  # the peer it came from
    queue_s: float
    ended_s: float
    prompt_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    attempts: tuple[AttemptStory, ...]
    names: dict[str, str]
    is_streaming: bool = True  # False: its reply comes in one piece, so its first byte is its end
    continued: int = 0  # how often its reply lost its node in the middle and went on at another one


class Record(msgspec.Struct, frozen=True):
    """A finished request in GET /report: when and where, never what. Times count from the run's start."""

    request: str
    node: str | None
    engine: str | None
    outcome: str
    arrived_s: float
    dispatched_s: float | None
    first_byte_s: float | None
    ended_s: float
    prompt_tokens: int | None
    output_tokens: int | None
    attempts: int
    reason: str | None
    model: str = ""
    cached_tokens: int | None = None
    error: str = ""  # why it was refused or failed
    continued: int = 0  # how often its reply lost its node in the middle and went on at another one


class Report(msgspec.Struct, frozen=True):
    """GET /report. ``names`` gives each node in it its name; ``recording`` is there if it is asked for."""

    run: RunReport | None
    records: tuple[Record, ...]
    names: dict[str, str]
    recording: Recording | None = None  # what `pairproxy whatif` replays
    findings: tuple[str, ...] = ()  # what this node's clients could do to be answered sooner, costliest first
    node: str = ""  # this one
    timeline: Timeline | None = None
    started_unix: float | None = None  # seconds of the epoch, when the run's first request arrived
    verdict: Verdict | None = None  # what limited the run, and what would change it, in two sentences


class SettingsReread(msgspec.Struct, frozen=True):
    """The answer to POST /settings: keys that changed and are in force now; those that need a restart."""

    node: str
    applied: tuple[str, ...]
    needs_restart: tuple[str, ...]


class DaemonFile(msgspec.Struct, frozen=True):
    """daemon.json in the home directory: how the faces find a running daemon."""

    pid: int
    node: str
    name: str
    admin_port: int
    peer_port: int | None
    client_ports: dict[str, int]  # engine -> port
    admin_host: str = "127.0.0.1"  # the loopback address of admin_port
    client_hosts: dict[str, str] = {}  # engine -> the loopback address of its port
    waiting_for: tuple[str, ...] = ()  # engines that did not answer when it was ready
    key_port: int | None = None  # for clients with keys, TLS; None: closed
    key_host: str = ""  # the address of key_port
    ports: tuple[PortStatus, ...] = ()  # every client port, as it was when one of them changed last
    has_engine: bool = True  # whether any answered when it was ready; without one it is a requester only
    token: str = ""  # who can read this file may change things at the admin port; new with each start


class KeysChanged(msgspec.Struct, frozen=True):
    """Answer to POST /keys: what a running daemon found in the file of its clients' keys. Names of keys."""

    node: str  # this one
    added: tuple[str, ...]
    gone: tuple[str, ...]
    port: int | None = None  # where keys are taken now; None: nowhere
    why: str = ""  # why not, and what to do; "": the port is open


class TrustChanged(msgspec.Struct, frozen=True):
    """Answer to POST /trust: what a running daemon found in the files of its peers. Device ids."""

    node: str  # this one
    added: tuple[str, ...]
    changed: tuple[str, ...]
    gone: tuple[str, ...]
