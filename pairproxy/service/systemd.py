"""The daemon as a unit of systemd: of a person's own manager, or of the system."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from pairproxy.api.service import ManagerName, ServiceState
from pairproxy.config import cache_dir
from pairproxy.core.errors import SetupError
from pairproxy.service.changes import Change, Do, Remove, Write
from pairproxy.service.plans import Plan, home_in, our_text, until_it_serves
from pairproxy.service.systemd_unit import DIRECTORIES, LINGERS, UNIT, directories_made, lingers, text
from pairproxy.service.wanted import Wanted, user_of
from pairproxy.takeover.files import missing_directories
from pairproxy.takeover.places import home_of
from pairproxy.takeover.running import CommandFailed, Runner

ASK_S = 10.0  # systemd answers in some milliseconds; one that starts or is out of memory takes seconds
SYSTEM_UNITS = Path("/etc/systemd/system")
_PROPERTIES = (
    "LoadState", "ActiveState", "SubState", "UnitFileState", "FragmentPath", "MainPID", "NRestarts",
    "ActiveEnterTimestampMonotonic", "StatusText", "StatusErrno", "Result",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Systemd:
    """One of the two managers of systemd. ``is_system``: that of the system."""

    runner: Runner
    is_system: bool

    @property
    def name(self) -> ManagerName:
        """How JSON calls it."""
        return "systemd" if self.is_system else "systemd-user"

    def install(self, wanted: Wanted, *, lingers_too: bool = False) -> Plan:
        """Write the unit, enable and start it. Raises SetupError for what stands in the way."""
        self._refuse_absence()
        path = self.path()
        before = our_text(path, self.runner)
        if self.is_system and lingers_too:
            raise SetupError("--linger is for a service of your own; one of the system runs without you.")
        has_lingered = before is not None and lingers(before)
        made = directories_made(before) if before is not None else len(missing_directories(path))
        notes = [f"{DIRECTORIES}{made}"] if made else []
        linger = self._linger(wanted, is_wanted=lingers_too and not has_lingered)
        notes += [LINGERS] if linger or has_lingered else []
        unit = text(
            wanted,
            is_system=self.is_system,
            writable=self._writable(wanted),
            cache=self._cache(wanted),
            notes=notes,
        )
        undo = [self._do("daemon-reload")]
        undo.append(self._do("restart", UNIT) if before is not None else self._do("reset-failed", UNIT))
        return Plan(
            (
                *linger,
                Write(path, unit, needs_root=self.is_system),
                self._do("daemon-reload"),
                *([self._do("reset-failed", UNIT, may_fail=True)] if before is not None else []),
                self._do("enable", UNIT, undo=() if before is not None else ("disable", UNIT)),
                self._do("restart", "--no-block", UNIT, undo=("stop", UNIT)),
                until_it_serves(self.state, self.last_words, wanted.home, self.state().pid),
            ),
            tuple(undo),
            self._notes(wanted, is_lingering=bool(linger)),
        )

    def uninstall(self) -> Plan:
        """Stop, disable, and remove it. Raises SetupError if it is not ours."""
        path = self.path()
        unit = our_text(path, self.runner)
        if unit is None:
            raise SetupError(f"There is no {path}: nothing is installed there.")
        steps: list[Change] = [
            self._do("disable", "--now", UNIT, may_fail=True),
            Remove(path, needs_root=self.is_system, most_directories=directories_made(unit)),
            self._do("daemon-reload", may_fail=True),
            self._do("reset-failed", UNIT, may_fail=True),
        ]
        if lingers(unit):
            back = ("loginctl", "disable-linger", user_of(self.runner.environment))
            steps.append(Do(back, needs_root=True, may_fail=True))
        return Plan(tuple(steps))

    def start(self, home: Path) -> Plan:
        """Start it. Raises SetupError where there is no such manager."""
        self._refuse_absence()
        serves = until_it_serves(self.state, self.last_words, home, None)
        fresh = self._do("reset-failed", UNIT, may_fail=True)
        return Plan((fresh, self._do("restart", "--no-block", UNIT), serves))

    def state(self) -> ServiceState:
        """What systemd says of it; where there is no such manager, it is not installed."""
        path = self.path()
        try:
            unit = our_text(path, self.runner)
        except SetupError as error:
            return ServiceState(self.name, is_installed=False, file=str(path), problem=error.sentence)
        if unit is None:
            return ServiceState(self.name, is_installed=False)
        starts = "when the machine starts" if self.is_system else self._starts()
        found = ServiceState(
            self.name, is_installed=True, file=str(path), starts=starts, log=self.log, home=home_in(unit)
        )
        try:
            told = self._show()
        except SetupError as error:
            return replace(found, problem=error.sentence)
        return _told(found, told)

    @property
    def log(self) -> str:
        """The command that shows the log."""
        return f"journalctl {'--unit' if self.is_system else '--user-unit'} {UNIT}"

    def last_words(self) -> str:
        """What the daemon said of its failure, or the last lines of its log; "" where they cannot be read."""
        if (told := self._show()).get("StatusErrno", "0") != "0":
            return told.get("StatusText", "")
        argv = [*self.log.split(), "--lines=5", "--output=cat", "--no-pager", "--quiet"]
        try:
            return self.runner.run(argv, timeout_s=ASK_S).out.strip()
        except CommandFailed:
            return ""

    def path(self) -> Path:
        """Where the unit belongs."""
        if self.is_system:
            return SYSTEM_UNITS / UNIT
        usual = home_of(self.runner) / ".config" / "systemd" / "user" / UNIT
        told = self.runner.environment.get("XDG_CONFIG_HOME", "")
        if not told.startswith("/") or usual.exists():
            return usual
        other = Path(told) / "systemd" / "user" / UNIT
        return other if other.exists() or str(other.parent) in self._looked_through() else usual

    def _looked_through(self) -> list[str]:
        """Where the person's manager looks for units: it need not know this shell's variables."""
        try:
            argv = self._control("show", "--property=UnitPath", "--value")
            return self.runner.run(argv, timeout_s=ASK_S).out.split()
        except CommandFailed:
            return []

    # --- asking ----------------------------------------------------------------------------------------

    def _control(self, *words: str) -> tuple[str, ...]:
        return ("systemctl", *words) if self.is_system else ("systemctl", "--user", *words)

    def _do(self, *words: str, undo: Sequence[str] = (), may_fail: bool = False) -> Do:
        back = self._control(*undo) if undo else ()
        return Do(self._control(*words), self.is_system, back, may_fail)

    def _show(self) -> dict[str, str]:
        argv = self._control("show", UNIT, *(f"--property={name}" for name in _PROPERTIES))
        done = self.runner.run(argv, timeout_s=ASK_S)
        if not done.is_ok:
            raise SetupError(self._no_manager(done.why))
        return dict(line.partition("=")[::2] for line in done.out.splitlines())

    def _refuse_absence(self) -> None:
        """Raise SetupError unless this manager answers."""
        if self.runner.which("systemctl") is None:
            raise SetupError(f"This machine has no systemd. {NO_SERVICE}")
        done = self.runner.run(self._control("show", "--property=Version"), timeout_s=ASK_S)
        if not done.is_ok:
            raise SetupError(self._no_manager(done.why))

    def _no_manager(self, why: str) -> str:
        """The sentence for a manager that does not answer."""
        if is_wsl():
            return (
                f"systemd does not run in this WSL ({why}). Write `[boot]` and `systemd=true` into "
                "/etc/wsl.conf, run `wsl --shutdown` in Windows, and try again."
            )
        if self.is_system or not Path("/run/systemd/system").is_dir():
            return f"systemd does not run on this machine ({why}). {NO_SERVICE}"
        return (
            f"Your own service manager does not answer ({why}). It is there for who has logged in: not after "
            "`su` or `sudo`, and not in every container. Log in as yourself, or run "
            f"`sudo loginctl enable-linger {user_of(self.runner.environment)}` and try again, or install it "
            "for the whole machine: `pairproxy service install --system`."
        )

    # --- details ---------------------------------------------------------------------------------------

    def _linger(self, wanted: Wanted, *, is_wanted: bool) -> tuple[Do, ...]:
        if not is_wanted or self._is_lingering(wanted.user):
            return ()
        back = ("loginctl", "disable-linger", wanted.user)
        return (Do(("loginctl", "enable-linger", wanted.user), needs_root=True, undo=back),)

    def _is_lingering(self, user: str) -> bool | None:
        """Whether the person's manager runs without a session; None: nobody tells."""
        argv = ["loginctl", "show-user", user, "--property=Linger", "--value"]
        try:
            told = self.runner.run(argv, timeout_s=ASK_S)
        except CommandFailed:
            return None
        return told.out.strip() == "yes" if told.is_ok else None

    def _starts(self) -> str:
        is_lingering = self._is_lingering(user_of(self.runner.environment))
        return "when the machine starts" if is_lingering else "when you log in"

    def _notes(self, wanted: Wanted, *, is_lingering: bool) -> tuple[str, ...]:
        if self.is_system:
            root = "It runs as root, without root's powers over the system." if wanted.user == "root" else ""
            return tuple(one for one in (root,) if one)
        if is_lingering or self._is_lingering(wanted.user):
            return ()
        return (_AT_LOG_IN,)

    def _writable(self, wanted: Wanted) -> tuple[Path, ...]:
        """Home and models; and where LM Studio's command writes when that is moved again."""
        home = home_of(self.runner)
        return (wanted.home, cache_dir(), home / ".lmstudio", home / ".cache" / "lm-studio")

    def _cache(self, wanted: Wanted) -> Path | None:
        """Where models are kept, if that must be another place: what is not there cannot be made in there."""
        return wanted.home / "cache" if self.is_system and not cache_dir().exists() else None


_AT_LOG_IN = (
    "It starts when you log in and ends when you log out. For a machine that nobody logs in to: "
    "`pairproxy service install --linger` (it asks for root once), or `--system`."
)
NO_SERVICE = "Run `pairproxy up` in whatever starts programs here."


def is_wsl() -> bool:
    """Whether this Linux runs inside of Windows."""
    try:
        return "microsoft" in os.uname().release.lower()
    except AttributeError:  # on Windows itself
        return False


def _told(found: ServiceState, told: dict[str, str]) -> ServiceState:
    """The state with what `systemctl show` said."""
    is_running = told.get("ActiveState") in ("active", "reloading", "deactivating")
    entered = int(told.get("ActiveEnterTimestampMonotonic") or 0)
    restarts = told.get("NRestarts", "")
    state = "/".join(one for one in (told.get("ActiveState"), told.get("SubState")) if one)
    problem = None
    if told.get("LoadState") != "loaded":
        problem = "systemd has not read it, or cannot: run `pairproxy service install` again."
    elif told.get("StatusErrno", "0") != "0":  # the daemon's own word, before it ends
        problem = told.get("StatusText")
    elif not is_running and told.get("Result") not in ("success", "", None):
        problem = f"It does not run ({told['Result']}). Its log says why: `{found.log}`."
    return replace(
        found,
        is_enabled=told.get("UnitFileState") == "enabled",
        is_running=is_running,
        state=state,
        pid=int(told.get("MainPID") or 0) or None,
        since_unix=time.time() - (time.monotonic() - entered / 1e6) if is_running and entered else None,
        restarts=int(restarts) if restarts.isdigit() else None,
        says=told.get("StatusText", ""),
        problem=problem,
    )
