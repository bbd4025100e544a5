"""The daemon as a scheduled task of Windows: for one person, from log-on on. Tested against stand-ins only.

The words of schtasks are translated by Windows, so nothing is read from them but its exit status.
"""

import os
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from subprocess import list2cmdline
from xml.sax.saxutils import escape

from msgspec.structs import replace

from pairproxy.api.client import NoDaemon, read_daemon_file
from pairproxy.api.service import ManagerName, ServiceState
from pairproxy.core.errors import SetupError
from pairproxy.service.changes import Change, Do, Remove, Write
from pairproxy.service.plans import Plan, home_in, our_text, serves, until_it_serves
from pairproxy.service.wanted import HOME, MARK, Wanted, kept_logs
from pairproxy.takeover.places import home_of
from pairproxy.takeover.running import Runner

TASK = "pairproxy"
ASK_S = 20.0
ENCODING = "utf-16"  # what schtasks /XML wants

# Restarts: a minute is the least that Windows takes. Priority 7, the usual one of tasks, is below normal.
_XML = """\
<?xml version="1.0" encoding="UTF-16"?>
<!-- {mark} -->
<!-- {home_word}{home} -->
<Task version="1.4" xmlns="http://schemas.microsoft.com/windows/2004/02/mit/task">
  <RegistrationInfo><Description>LLM requests spread over paired machines</Description></RegistrationInfo>
  <Triggers><LogonTrigger><Enabled>true</Enabled><UserId>{user}</UserId></LogonTrigger></Triggers>
  <Principals><Principal id="Author"><UserId>{user}</UserId><LogonType>InteractiveToken</LogonType>\
<RunLevel>LeastPrivilege</RunLevel></Principal></Principals>
  <Settings>
    <MultipleInstancesPolicy>IgnoreNew</MultipleInstancesPolicy>
    <DisallowStartIfOnBatteries>false</DisallowStartIfOnBatteries>
    <StopIfGoingOnBatteries>false</StopIfGoingOnBatteries>
    <ExecutionTimeLimit>PT0S</ExecutionTimeLimit>
    <RestartOnFailure><Interval>PT1M</Interval><Count>999</Count></RestartOnFailure>
    <Hidden>true</Hidden>
    <Priority>5</Priority>
  </Settings>
  <Actions Context="Author"><Exec>
    <Command>{command}</Command><Arguments>{arguments}</Arguments>
  </Exec></Actions>
</Task>
"""


@dataclass(frozen=True, slots=True)
class WindowsTask:
    """Windows' Task Scheduler."""

    runner: Runner
    name: ManagerName = "windows-task"

    def install(self, wanted: Wanted, *, lingers_too: bool = False) -> Plan:
        """Write the task's file, register and run it. Raises SetupError for what stands in the way."""
        if lingers_too:
            raise SetupError("--linger is for Linux. Here the service starts when you log on.")
        if self.runner.which("schtasks") is None:
            raise SetupError("schtasks is not on PATH: is C:\\Windows\\System32 missing from it?")
        before = our_text(self.path(), self.runner, ENCODING)
        old = self.state().pid
        create = Do(
            ("schtasks", "/Create", "/TN", TASK, "/XML", str(self.path()), "/F"),
            undo=() if before is not None else ("schtasks", "/Delete", "/TN", TASK, "/F"),
        )
        run = Do(("schtasks", "/Run", "/TN", TASK), undo=self._end.argv)
        return Plan(
            (
                self._end,
                Write(self.path(), self.xml(wanted), mode=0o600, encoding=ENCODING),
                create,
                run,
                until_it_serves(self.state, self.last_words, wanted.home, old),
            ),
            (create, run) if before is not None else (),
        )

    def uninstall(self) -> Plan:
        """End and delete it, and remove its file and its log. Raises SetupError if it is not ours."""
        if our_text(self.path(), self.runner, ENCODING) is None:
            raise SetupError(f"There is no {self.path()}: nothing is installed there.")
        logs: list[Change] = [Remove(one) for one in kept_logs(self.log)]
        delete = Do(("schtasks", "/Delete", "/TN", TASK, "/F"), may_fail=True)
        return Plan((self._end, delete, *logs, Remove(self.path(), most_directories=1)))

    def start(self, home: Path) -> Plan:
        """Run the task."""
        serves = until_it_serves(self.state, self.last_words, home, None)
        return Plan((Do(("schtasks", "/Run", "/TN", TASK)), serves))

    def state(self) -> ServiceState:
        """Whether Windows knows it, and whether its daemon answers."""
        path = self.path()
        try:
            text = our_text(path, self.runner, ENCODING)
        except SetupError as error:
            return ServiceState(self.name, is_installed=False, file=str(path), problem=error.sentence)
        if text is None:
            return ServiceState(self.name, is_installed=False)
        home = home_in(text)
        found = ServiceState(
            self.name,
            is_installed=True,
            starts="when you log on",
            file=str(path),
            home=home,
            log=str(self.log),
        )
        done = self.runner.run(["schtasks", "/Query", "/TN", TASK], timeout_s=ASK_S)
        if not done.is_ok:
            return replace(
                found, problem="Windows does not know the task: run `pairproxy service install` again."
            )
        is_running = home is not None and serves(Path(home), None)
        pid = _pid(Path(home)) if home is not None and is_running else None
        state = "running" if is_running else "not running"
        return replace(found, is_enabled=True, is_running=is_running, pid=pid, state=state)

    @property
    def log(self) -> Path:
        """Where the daemon logs: Windows keeps no output of tasks."""
        return self._directory / "pairproxy.log"

    def last_words(self) -> str:
        """The last lines of its log, for a person."""
        try:
            return self.log.read_text(encoding="utf-8", errors="replace")[-2000:].strip()
        except OSError:
            return ""

    def path(self) -> Path:
        """Where the task's own definition is kept: Windows has a copy of it."""
        return self._directory / "service.xml"

    def xml(self, wanted: Wanted) -> str:
        """The task (Task Scheduler schema 1.4)."""
        home = str(wanted.home)
        if "--" in home or not home.isprintable():
            raise SetupError(f"{home!r} cannot stand in a task of Windows. Choose a home with a plain name.")
        line = [*wanted.up, "--log-file", str(self.log)]
        return _XML.format(
            mark=MARK, home_word=HOME, home=escape(home), user=escape(self._user(wanted)),
            command=escape(_without_window(line[0])), arguments=escape(list2cmdline(line[1:])),
        )  # fmt: skip

    @property
    def _directory(self) -> Path:
        told = self.runner.environment.get("LOCALAPPDATA")
        return (Path(told) if told else home_of(self.runner) / "AppData" / "Local") / "pairproxy" / "Service"

    @property
    def _end(self) -> Do:
        return Do(("schtasks", "/End", "/TN", TASK), may_fail=True)

    def _user(self, wanted: Wanted) -> str:
        domain = self.runner.environment.get("USERDOMAIN", "")
        return f"{domain}\\{wanted.user}" if domain else wanted.user


def _without_window(program: str) -> str:
    """The Python that opens no console, where it stands beside the other one."""
    path = PureWindowsPath(program)
    quiet = str(path.with_name("pythonw.exe"))
    return quiet if path.name.lower() == "python.exe" and os.path.exists(quiet) else program  # noqa: PTH110


def _pid(home: Path) -> int | None:
    try:
        return read_daemon_file(home).pid
    except NoDaemon:
        return None
