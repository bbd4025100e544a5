"""All that was found out about this machine's set-up, as values. Checks see nothing else."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pairproxy.api.diagnosis import Measured
from pairproxy.api.models import ModelMatrix
from pairproxy.api.schema import DaemonFile, NodeStatus, Status
from pairproxy.api.service import ServiceState
from pairproxy.config import Settings
from pairproxy.doctor.probes.python_build import PythonBuild
from pairproxy.security.peer_record import PeerRecord


@dataclass(frozen=True, slots=True)
class Unknown:
    """What could not be found out. ``why``: the rest of "not looked at, because"."""

    why: str


@dataclass(frozen=True, slots=True)
class Listener:
    """A listening TCP socket. ``name``: of its program; "" and no ``pid``: of another user, as a rule."""

    host: str
    port: int
    pid: int | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class SeenEngine:
    """An engine of this machine. ``url_host`` and ``port``: where it is looked for."""

    id: str
    kind: str
    url_host: str
    port: int
    is_up: bool
    version: str = ""
    slots: int | None = None  # what pairproxy gives it at once; None: no daemon says
    parallel: int | None = None  # what its process was told (OLLAMA_NUM_PARALLEL); None: cannot be read


@dataclass(frozen=True, slots=True)
class Told:
    """Variables that clients obey, as one place sets them. Values may hold passwords: never shown."""

    where: str
    variables: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class OpenFile:
    """What in the home is not its owner's alone. ``mode``: as it is; ``wanted``: as chmod takes it."""

    path: Path
    mode: int
    wanted: str
    is_foreign: bool = False  # belongs to another user


@dataclass(frozen=True, slots=True)
class Place:
    """A directory that is written to, and the bytes free there."""

    what: str
    path: Path
    free_bytes: int


@dataclass(frozen=True, slots=True)
class Card:
    """A network interface. ``heard``: addresses that answered mDNS there; ``problem``: why none was asked."""

    name: str
    address: str
    network: str  # 10.0.0.0/24
    heard: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Firewall:
    """What a packet filter of this machine does to peers. ``drops``: ports that it keeps shut, with how."""

    name: str
    drops: tuple[tuple[str, int], ...] = ()  # ("tcp", 11634), ("udp", 5353)


@dataclass(frozen=True, slots=True)
class Machine:
    """This Python and what it brings. ``is_checkout``: pairproxy runs from its sources, to be worked on."""

    python: str
    system: str  # linux, darwin, win32
    has_fast_loop: bool = True
    has_fast_parser: bool = True
    is_wsl: bool = False
    python_build: PythonBuild = "optimised"
    is_compiled: bool = True
    is_checkout: bool = False


@dataclass(frozen=True, slots=True)
class Process:
    """The daemon's process. ``descriptors``: how many it may open."""

    pid: int
    descriptors: int
    is_alive: bool = True


@dataclass(frozen=True, slots=True)
class Moved:
    """One engine that was taken over, as the undo record says. ``is_whole``: no step is half done."""

    kind: str
    usual: int
    moved: int
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything there is to judge. A check names those that it needs; an Unknown one is not judged."""

    home: Path
    settings: Settings | Unknown
    settings_problem: str
    daemon: DaemonFile | None
    status: Status | Unknown
    models: ModelMatrix | Unknown
    peers: tuple[PeerRecord, ...] | Unknown
    peers_problem: str = ""
    listeners: tuple[Listener, ...] | Unknown = ()
    reached: tuple[Listener, ...] = ()  # engines' ports that answer from outside, where the above is Unknown
    engines: tuple[SeenEngine, ...] | Unknown = ()
    surroundings: tuple[Told, ...] | Unknown = ()
    files: tuple[OpenFile, ...] | Unknown = ()
    places: tuple[Place, ...] | Unknown = ()
    history_problem: str | Unknown = ""
    cards: tuple[Card, ...] | Unknown = ()
    firewall: Firewall | Unknown = Unknown("")
    machine: Machine = Machine("", "")
    process: Process | Unknown = Unknown("")
    moved: tuple[Moved, ...] | Unknown = ()
    services: tuple[ServiceState, ...] | Unknown = ()  # that are installed
    measured: tuple[Measured, ...] | Unknown | None = None  # None: nobody wants it

    @property
    def own(self) -> NodeStatus | None:
        """This node, as its daemon tells."""
        if isinstance(self.status, Unknown):
            return None
        return next((node for node in self.status.nodes if node.is_self), None)

    @property
    def own_services(self) -> tuple[ServiceState, ...]:
        """Those of this home, as far as one can tell."""
        found = () if isinstance(self.services, Unknown) else self.services
        return tuple(one for one in found if one.home in (None, str(self.home)))

    @property
    def fronts(self) -> dict[int, str]:
        """Client ports of the daemon: port -> the kind of engine it stands for, or its id."""
        if not isinstance(self.status, Unknown) and self.status.ports:
            return {one.port: one.kind for one in self.status.ports}
        if self.daemon is None:
            return {}
        return {port: engine for engine, port in self.daemon.client_ports.items()}
