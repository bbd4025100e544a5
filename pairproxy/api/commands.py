"""What commands print with --json that no daemon serves: pairing and what peers may do."""

import msgspec


class Peer(msgspec.Struct, frozen=True):
    """One paired machine. ``is_up`` None: nobody looks, for no daemon runs or we may not use it."""

    name: str
    node: str
    id: str
    is_up: bool | None
    problem: str | None
    address: str | None
    age_s: float | None
    may_use_me: bool
    i_may_use: bool
    slots: int | None  # that it may hold here at once; None: as many as peers.max_slots says, or all
    models: tuple[str, ...]  # patterns of those that it may use here; none: all
    paired_at: int | None  # seconds of the epoch
    may_add_models: bool = False  # have them copied to this machine's Ollama


class Peers(msgspec.Struct, frozen=True):
    """`pairproxy peers`: all of them. ``forgotten``: names of those that were peers, by device id."""

    has_daemon: bool
    peers: tuple[Peer, ...]
    forgotten: dict[str, str]


class InForce(msgspec.Struct, frozen=True):
    """`pairproxy rights`: what is in force. ``has_daemon``: one runs here and goes by it."""

    name: str
    node: str
    may_use_me: bool
    i_may_use: bool
    slots: int | None
    models: tuple[str, ...]
    has_daemon: bool
    may_add_models: bool = False  # have them copied to this machine's Ollama


class Forgot(msgspec.Struct, frozen=True):
    """`pairproxy forget`: who is no longer paired. ``has_daemon``: one runs here and has cut it off."""

    name: str
    node: str
    has_daemon: bool


class Offered(msgspec.Struct, frozen=True):
    """The first line of `pairproxy pair`. ``at``: what may follow --at where mDNS does not pass."""

    code: str
    expires_s: float
    at: tuple[str, ...]
    is_announced: bool


class Paired(msgspec.Struct, frozen=True):
    """The last line of `pairproxy pair` and `join`. ``has_reached``: this daemon the other; None: untried."""

    name: str
    node: str
    may_use_me: bool
    i_may_use: bool
    slots: int | None
    models: tuple[str, ...]
    addresses: tuple[str, ...]
    was_forgotten: bool
    has_daemon: bool
    has_reached: bool | None
    other_has_daemon: bool | None  # None: it did not say
    other_has_reached: bool | None


class KeyMade(msgspec.Struct, frozen=True):
    """`pairproxy keys add`: the one time a key can be read. ``port`` None: ``why`` it is taken nowhere."""

    name: str
    key: str
    models: tuple[str, ...]  # patterns of those that it may use; none: all
    slots: int | None  # of its requests that run at once; None: any number
    has_daemon: bool
    port: int | None
    why: str


class ListedKey(msgspec.Struct, frozen=True):
    """One key; what it is cannot be told any more."""

    name: str
    added_at: int  # seconds of the epoch
    models: tuple[str, ...]
    slots: int | None


class KeyList(msgspec.Struct, frozen=True):
    """`pairproxy keys list`."""

    keys: tuple[ListedKey, ...]


class KeyRevoked(msgspec.Struct, frozen=True):
    """`pairproxy keys revoke`. ``has_daemon``: one runs here and has cut it off."""

    name: str
    has_daemon: bool


class PlannedPort(msgspec.Struct, frozen=True):
    """What is to be done about the port of one kind of engine.

    ``what``: take, repair (it was taken over, and is back), undo (one was broken off), release, none, cannot;
    ``why`` says it in a sentence. ``changes``: every change of this machine, in order, a line each.
    """

    kind: str
    usual: int
    moved: int  # the engine's private port
    what: str
    why: str
    owner: str | None = None  # who holds the usual port now
    changes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()  # what a person has to agree to
    notes: tuple[str, ...] = ()
    needs_root: bool = False


class MovedPort(msgspec.Struct, frozen=True):
    """What came of it. ``problem``: why it failed, None if it did not."""

    kind: str
    problem: str | None
    gap_s: float | None = None  # in which nobody was on the port; None: it was not tried
    notes: tuple[str, ...] = ()


class Takeover(msgspec.Struct, frozen=True):
    """`pairproxy takeover`: what was planned, and what came of it; nothing of the second with --dry-run."""

    is_dry_run: bool
    planned: tuple[PlannedPort, ...]
    moved: tuple[MovedPort, ...] = ()


class Release(msgspec.Struct, frozen=True):
    """`pairproxy release`: the same, the other way. Nothing planned: nothing was taken over."""

    is_dry_run: bool
    planned: tuple[PlannedPort, ...]
    moved: tuple[MovedPort, ...] = ()
