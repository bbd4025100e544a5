"""The daemon as a launch agent of macOS: for one person, from log-in on. Tested against stand-ins only.

launchd keeps no sockets for a program that comes back, so its ports are refused for a moment then.
"""

import os
import plistlib
import re
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from pairproxy.api.service import ManagerName, ServiceState
from pairproxy.core.errors import SetupError
from pairproxy.service.changes import Change, Do, Remove, Wait, Write
from pairproxy.service.plans import Plan, home_in, our_text, until, until_it_serves
from pairproxy.service.wanted import HOME, MARK, Wanted, kept_logs
from pairproxy.takeover.places import home_of
from pairproxy.takeover.running import CommandFailed, Runner

LABEL = "pairproxy.daemon"
ASK_S = 10.0
STOP_S = 45  # launchd's own 20 s would cut replies that may take 30 s to end
ENDED_S = 60.0
_FACT = re.compile(r"^\t(state|pid|last exit code|runs) = (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Launchd:
    """The person's own launchd."""

    runner: Runner
    name: ManagerName = "launchd"

    def install(self, wanted: Wanted, *, lingers_too: bool = False) -> Plan:
        """Write the agent, load and start it. Raises SetupError for what stands in the way."""
        if lingers_too:
            raise SetupError("--linger is for Linux. Here the service starts when you log in.")
        self._refuse_absence()
        path, before = self.path(), our_text(self.path(), self.runner)
        old = self.state().pid
        load = Do(("launchctl", "bootstrap", self._domain, str(path)), undo=self._bootout.argv)
        return Plan(
            (
                self._bootout,
                self._ended,
                Write(path, self.plist(wanted)),
                Do(("launchctl", "enable", f"{self._domain}/{LABEL}")),
                load,
                until_it_serves(self.state, self.last_words, wanted.home, old),
            ),
            (load,) if before is not None else (),
        )

    def uninstall(self) -> Plan:
        """Unload it, and remove its file and its log. Raises SetupError if it is not ours."""
        path = self.path()
        if our_text(path, self.runner) is None:
            raise SetupError(f"There is no {path}: nothing is installed there.")
        logs: list[Change] = [Remove(one) for one in kept_logs(self.log)]
        return Plan((self._bootout, Remove(path), *logs, Remove(self.errors, most_directories=1)))

    def start(self, home: Path) -> Plan:
        """Load it anew: that starts it."""
        load = Do(("launchctl", "bootstrap", self._domain, str(self.path())))
        serves = until_it_serves(self.state, self.last_words, home, None)
        return Plan((self._bootout, self._ended, load, serves))

    def state(self) -> ServiceState:
        """What launchd says of it."""
        path = self.path()
        try:
            text = our_text(path, self.runner)
        except SetupError as error:
            return ServiceState(self.name, is_installed=False, file=str(path), problem=error.sentence)
        if text is None:
            return ServiceState(self.name, is_installed=False)
        found = ServiceState(
            self.name, is_installed=True, is_enabled=True, starts="when you log in", file=str(path),
            home=home_in(text), log=str(self.log),
        )  # fmt: skip
        try:
            facts = self._facts()
        except SetupError as error:
            return replace(found, problem=error.sentence)
        return self._told(found, facts)

    @property
    def log(self) -> Path:
        """Where the daemon logs."""
        return home_of(self.runner) / "Library" / "Logs" / "pairproxy" / "pairproxy.log"

    @property
    def errors(self) -> Path:
        """What it says before it can log."""
        return self.log.with_name("start.log")

    def last_words(self) -> str:
        """The last lines of its log, for a person."""
        for one in (self.errors, self.log):
            try:
                if text := one.read_text(encoding="utf-8", errors="replace")[-2000:].strip():
                    return text
            except OSError:
                continue
        return ""

    def path(self) -> Path:
        """Where the agent belongs."""
        return home_of(self.runner) / "Library" / "LaunchAgents" / f"{LABEL}.plist"

    def plist(self, wanted: Wanted) -> str:
        """The agent (launchd.plist(5))."""
        job = {
            "Label": LABEL,
            "ProgramArguments": [*wanted.up, "--log-file", str(self.log)],
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},  # after a failure; a person's stop is final
            "ProcessType": "Interactive",  # others have their processor and disk throttled
            "ExitTimeOut": STOP_S,
            "StandardErrorPath": str(self.errors),
            "Umask": 0o077,
        }
        head, _, body = plistlib.dumps(job).decode().partition("<plist ")
        return f"{head}<!-- {MARK} -->\n<!-- {HOME}{_in_a_comment(wanted.home)} -->\n<plist {body}"

    # --- asking ----------------------------------------------------------------------------------------

    @property
    def _domain(self) -> str:
        return f"gui/{os.getuid()}"

    @property
    def _bootout(self) -> Do:
        return Do(("launchctl", "bootout", f"{self._domain}/{LABEL}"), may_fail=True)

    @property
    def _ended(self) -> Wait:
        return Wait("an old one has ended", lambda: until(lambda: not self._facts(), ENDED_S))

    def _facts(self) -> dict[str, str]:
        """What `launchctl print` says; nothing if it is not loaded."""
        done = self.runner.run(["launchctl", "print", f"{self._domain}/{LABEL}"], timeout_s=ASK_S)
        return dict(_FACT.findall(done.out)) if done.is_ok else {}

    def _told(self, found: ServiceState, facts: dict[str, str]) -> ServiceState:
        pid, runs = facts.get("pid", ""), facts.get("runs", "")
        is_running = pid.isdigit()
        problem = None
        if not facts:
            problem = "It is not loaded: log out and in, or run `pairproxy service install` again."
        elif not is_running and facts.get("last exit code", "0").split(":")[0] not in ("0", "(never exited)"):
            problem = f"It ended with status {facts['last exit code']}. Its log says why: {self.log}"
        return replace(
            found,
            is_running=is_running,
            state=facts.get("state", "not loaded"),
            pid=int(pid) if is_running else None,
            restarts=max(int(runs) - 1, 0) if runs.isdigit() else None,
            problem=problem,
        )

    def _refuse_absence(self) -> None:
        """Raise SetupError where there is no session that an agent could live in."""
        try:
            done = self.runner.run(["launchctl", "print", self._domain], timeout_s=ASK_S)
        except CommandFailed as error:
            raise SetupError(f"launchd does not answer. {error.sentence}") from None
        if not done.is_ok:
            raise SetupError(
                f"launchd has no session of yours ({done.why}). Log in at the Mac's own screen, and run this "
                "in Terminal there."
            )


def _in_a_comment(home: Path) -> str:
    text = str(home)
    if "--" in text or not text.isprintable():
        raise SetupError(f"{text!r} cannot stand in a launch agent. Choose a home with a plain name.")
    return text
