"""The text of the systemd unit: of a person's own manager, and of the system's."""

from collections.abc import Iterable
from pathlib import Path

from pairproxy.core.errors import SetupError
from pairproxy.proxy.draining import DRAIN_S
from pairproxy.service.wanted import HOME, MARK, Wanted

UNIT = "pairproxy.service"
LINGERS = "# Lingering was switched on with it, and goes with it."
DIRECTORIES = "# Directories made for it: "

STOP_S = DRAIN_S + 15  # what runs may end, and goodbyes are said
HUNG_S = 60  # without a sign of life of the loop; a machine that swaps for a model is silent for ten
# More starts than that end the attempts: a daemon of ours takes longer to fail, what is left of an
# uninstalled one (no such program, no such module) does not.
LIMIT_S, LIMIT_STARTS = 10, 20
START_S = 600  # the first start of an embedded engine fetches its model

# Works in a person's own manager without privileges: all of it is done by seccomp. What needs mounts of its
# own (ProtectSystem, PrivateTmp ...) needs user namespaces there, which some systems refuse: then nothing
# starts, or it is left out in silence. CapabilityBoundingSet and PrivateDevices fail (218/CAPABILITIES).
_FILTERS = """\
NoNewPrivileges=yes
LockPersonality=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallErrorNumber=EPERM
SystemCallFilter=@system-service
UMask=0077
"""

# Not here: PrivateDevices and ProtectClock (they take graphics cards away from an embedded engine),
# PrivateUsers and ProtectProc (they hide who holds a port), MemoryDenyWriteExecute (their drivers compile).
_WALLS = """\
AmbientCapabilities=
CapabilityBoundingSet=
KeyringMode=private
PrivateMounts=yes
PrivateTmp=yes
ProtectControlGroups=yes
ProtectHome=read-only
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectSystem=strict
"""

_UNIT = f"""\
{{comments}}
[Unit]
Description=pairproxy: LLM requests spread over paired machines
After={{network}}ollama.service
{{wants}}StartLimitIntervalSec={LIMIT_S}
StartLimitBurst={LIMIT_STARTS}

[Service]
Type=notify
NotifyAccess=main
SyslogIdentifier=pairproxy
{{user}}{{cache}}ExecStart={{up}}
ExecReload={{reload}}
Restart=on-failure
RestartSec=200ms
TimeoutStartSec={START_S}
TimeoutStopSec={STOP_S:.0f}
WatchdogSec={HUNG_S}
KillMode=mixed
OOMPolicy=continue
FileDescriptorStoreMax=16
{_FILTERS}{{walls}}
[Install]
WantedBy={{wanted_by}}
"""


def text(
    wanted: Wanted,
    *,
    is_system: bool,
    writable: Iterable[Path] = (),
    cache: Path | None = None,
    notes: Iterable[str] = (),
) -> str:
    """The unit. ``writable``: where the daemon writes; for a unit of the system nothing else can be.

    ``cache``: where it keeps models, if not where it usually does. Raises SetupError for a path that no unit
    can hold.
    """
    own = {"network": "", "user": "", "walls": "", "wanted_by": "default.target"}
    system = {
        "network": "network-online.target ",
        "user": f"User={wanted.user}\n",
        "walls": f"{_walls(wanted)}ReadWritePaths={' '.join(_path(one) for one in writable)}\n",
        "wanted_by": "multi-user.target",
    }
    return _UNIT.format(
        comments="".join(f"{line}\n" for line in (f"# {MARK}", f"# {HOME}{wanted.home}", *notes)),
        wants="Wants=network-online.target\n" if is_system else "",
        cache=f"Environment={_word(f'PAIRPROXY_CACHE={cache}', '')}\n" if cache is not None else "",
        up=_line(wanted.up),
        reload=_line(wanted.reload),
        **(system if is_system else own),
    )


def _walls(wanted: Wanted) -> str:
    """What keeps the system's unit in; a program or a home in /tmp is not there with a /tmp of its own."""
    needed = (*wanted.up, str(wanted.home))
    is_temporary = any(word.startswith(("/tmp/", "/var/tmp/")) for word in needed)  # noqa: S108 as systemd has them
    return _WALLS.replace("PrivateTmp=yes\n", "") if is_temporary else _WALLS


def lingers(unit: str) -> bool:
    """Whether this unit's installation switched lingering on."""
    return LINGERS in unit.splitlines()


def directories_made(unit: str) -> int:
    """How many of the directories above it were made for it."""
    told = next((line for line in unit.splitlines() if line.startswith(DIRECTORIES)), "")
    number = told.removeprefix(DIRECTORIES)
    return min(int(number), 4) if number.isdigit() else 0


def _line(words: Iterable[str]) -> str:
    return " ".join(_word(one) for one in words)


def _word(text: str, variable: str = "$") -> str:
    """One word of a command line of systemd (systemd.service(5)): its marks lose their meaning.

    ``variable``: what begins a variable there; "": nothing does, as in Environment=.
    """
    _refuse_unprintable(text)
    for mark, plain in (
        ("\\", "\\\\"),
        ('"', '\\"'),
        ("%", "%%"),
        *([(variable, variable * 2)] if variable else []),
    ):
        text = text.replace(mark, plain)
    return f'"{text}"' if not text.isascii() or any(one in text for one in " '\"\\;") or not text else text


def _path(path: Path) -> str:
    """One path of a list; "-": it need not be there."""
    text = str(path)
    _refuse_unprintable(text)
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"-{escaped}"'


def _refuse_unprintable(text: str) -> None:
    if not text.isprintable():
        raise SetupError(f"{text!r} cannot stand in a unit of systemd. Choose a home with a plain name.")
