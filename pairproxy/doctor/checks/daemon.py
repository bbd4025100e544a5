"""The daemon: whether it runs, is of this version, is in time, and may open enough files."""

import shlex
from collections.abc import Iterator

from pairproxy import __version__
from pairproxy.api.diagnosis import Finding
from pairproxy.doctor.facts import Facts, Process, Unknown

LATE_S = 0.25  # as the daemon's own warning: a quarter of a heartbeat
LEAST_DESCRIPTORS = 1024  # 512 clients, each with its engine's connection


def runs(facts: Facts) -> Iterator[Finding]:
    """A daemon that does not run, or left its address behind and is gone."""
    if facts.daemon is None and facts.own_services:
        return  # it is a service, and another check says what is wrong with that
    others = () if isinstance(facts.services, Unknown) else facts.services
    home = next((one.home for one in others if one.is_running and one.home), None)
    if facts.daemon is None and home is not None:
        yield Finding(
            "other-home",
            "note",
            f"No daemon runs with the home {facts.home}; the service runs with {home}.",
            f"Look at that one: `pairproxy doctor --home {shlex.quote(home)}`.",
        )
        return
    if facts.daemon is None:
        yield Finding(
            "no-daemon",
            "note",
            "No daemon runs here, so nothing is distributed, and half of this could not be looked at.",
            "Start one with `pairproxy up`, or for good with `pairproxy service install`.",
        )
    elif isinstance(facts.status, Unknown):
        is_gone = isinstance(facts.process, Process) and not facts.process.is_alive
        what = "was killed or crashed" if is_gone else "hangs or is of another version"
        end = "taskkill /F /PID" if facts.machine.system == "win32" else "kill"
        stop = "Start" if is_gone else f"Stop it (`{end} {facts.daemon.pid}`) and start"
        yield Finding(
            "daemon-silent",
            "problem",
            f"The daemon of this home (pid {facts.daemon.pid}) does not answer: it {what}. Clients get "
            "nothing.",
            f"{stop} it again with `pairproxy up`; if it stays so, attach `pairproxy doctor --bundle FILE`.",
        )


def is_of_this_version(facts: Facts) -> Iterator[Finding]:
    """An update that the running daemon does not know of yet."""
    if not isinstance(facts.status, Unknown) and facts.status.version != __version__:
        yield Finding(
            "daemon-older",
            "warning",
            f"The running daemon is pairproxy {facts.status.version}, installed is {__version__}.",
            "Restart it: stop `pairproxy up` and start it again, or restart the service.",
        )


def offers(facts: Facts) -> Iterator[Finding]:
    """Slots that peers do not get, and what of the machine's use cannot be seen."""
    offer = None if isinstance(facts.status, Unknown) else facts.status.offer
    if offer is not None and offer.withheld:
        yield Finding("offers-nothing", "note", offer.why, "", offer.withheld)
    if offer is not None and offer.share == "idle" and offer.unknown:
        yield Finding(
            "idle-unseen",
            "note",
            f"peers.share is idle, and {' and '.join(offer.unknown)} cannot be read here: your use of it "
            "may be overlooked.",
            "Give way by hand with `pairproxy drain`, or see docs/configuration.md for peers.share.",
        )


def is_in_time(facts: Facts) -> Iterator[Finding]:
    """A loop that was held up."""
    if not isinstance(facts.status, Unknown) and facts.status.loop_lag_s > LATE_S:
        yield Finding(
            "loop-late",
            "warning",
            f"The daemon was held up for {facts.status.loop_lag_s:.1f} s within the last minute: replies and "
            "signs of life to peers were as late. The machine slept or was overloaded, or it is our fault.",
            "See what used the machine; the daemon's log names what held it up. Run `pairproxy doctor` again "
            "in a minute.",
        )


def may_open_files(facts: Facts) -> Iterator[Finding]:
    """Too few descriptors for the connections that are allowed."""
    if isinstance(facts.process, Process) and facts.process.is_alive:
        count = facts.process.descriptors
        if count < LEAST_DESCRIPTORS:
            yield Finding(
                "descriptors-few",
                "warning",
                f"The daemon may open {count} files and connections: with many clients at once some of them "
                "are turned away.",
                f"Start it with a higher limit: `ulimit -n {4 * LEAST_DESCRIPTORS}` before `pairproxy up`, "
                f"or LimitNOFILE={4 * LEAST_DESCRIPTORS} in its unit.",
            )


def keeps_history(facts: Facts) -> Iterator[Finding]:
    """History that is not written."""
    told = None if isinstance(facts.status, Unknown) else facts.status.history_problem
    found = told or (facts.history_problem if isinstance(facts.history_problem, str) else "")
    if found:
        yield Finding("history-off", "warning", found, "See docs/history.md; requests are served.")
