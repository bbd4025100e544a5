"""What `pairproxy service` tells a person of a service."""

import datetime
from typing import TYPE_CHECKING

from pairproxy.cli.options import plain
from pairproxy.cli.printing import say

if TYPE_CHECKING:
    from rich.console import Console

    from pairproxy.api.service import ServiceState

NOTHING = "No service is installed here. `pairproxy service install` installs it."
MANAGERS = {
    "systemd-user": "systemd, your own",
    "systemd": "systemd, the machine's",
    "launchd": "launchd",
    "windows-task": "Task Scheduler",
}


def tell_state(out: "Console", one: "ServiceState") -> None:
    """Everything that is known of it."""
    if not one.is_installed:
        if one.problem:
            say(out, plain(one.problem))
        return
    since = ""
    if one.since_unix is not None:
        then = datetime.datetime.fromtimestamp(one.since_unix, datetime.UTC).astimezone()
        since = f" since {then.isoformat(sep=' ', timespec='seconds')}"
    process = f", pid {one.pid}" if one.pid else ""
    say(out, f"The service {'runs' if one.is_running else 'does not run'}{since}{process}.")
    if one.says and one.is_running:
        say(out, f"  {plain(one.says)}")
    starts = one.starts if one.is_enabled else "not by itself: `pairproxy service install` switches that on"
    say(out, f"  manager   {MANAGERS[one.manager]} ({plain(one.state)})")
    say(out, f"  starts    {starts}")
    if one.restarts:
        say(out, f"  restarts  {one.restarts}, after failures")
    say(out, f"  file      {plain(one.file)}")
    if one.home:
        say(out, f"  home      {plain(one.home)}")
    say(out, f"  log       {plain(one.log)}")
    if one.problem:
        say(out, plain(one.problem), style="bold")
    elif not one.is_running:
        say(out, "`pairproxy service install` starts it again.")


def tell_installed(out: "Console", one: "ServiceState") -> None:
    """What came of an installation, and how to go on."""
    if one.is_running:
        say(out, f"The service runs, and starts {one.starts}. Its log: {plain(one.log)}")
        say(out, "`pairproxy status` shows the cluster, `pairproxy takeover` moves an engine off its port.")
    else:
        say(out, "The service is still starting: `pairproxy service status` tells how it goes.")
