"""Files: settings that can be read, secrets that nobody else can, room to write."""

import shlex
from collections.abc import Iterator

from pairproxy.api.diagnosis import Finding
from pairproxy.doctor.facts import Facts, Unknown

MOST_TOLD = 8  # files; one command mends them all
LEAST_BYTES = {
    "home": 256 * 1024 * 1024,  # history's 64 MiB, its reserve, and room for others
    "cache": 64 * 1024 * 1024,  # nothing has to be fetched, but what is under way must end
}


def are_settings(facts: Facts) -> Iterator[Finding]:
    """A config.toml that the next start refuses."""
    if facts.settings_problem:
        running = " The running daemon goes on with what it read before." if facts.daemon is not None else ""
        yield Finding(
            "settings-wrong",
            "problem",
            f"{facts.settings_problem} The next start fails.{running}",
            f"Correct {facts.home / 'config.toml'}, then `pairproxy reload`.",
            "config.toml",
        )


def are_private(facts: Facts) -> Iterator[Finding]:
    """What others may read in the home: keys are there, and who is paired."""
    if isinstance(facts.files, Unknown) or not facts.files:
        return
    told = facts.files[:MOST_TOLD]
    more = len(facts.files) - len(told)
    names = ", ".join(f"{one.path} ({one.mode:03o})" for one in told) + (f" and {more} more" if more else "")
    by_mode = {
        wanted: [shlex.quote(str(one.path)) for one in told if one.wanted == wanted]
        for wanted in ("700", "600")
    }
    commands = [f"chmod {wanted} {' '.join(paths)}" for wanted, paths in by_mode.items() if paths]
    if foreign := [shlex.quote(str(one.path)) for one in told if one.is_foreign]:
        commands.insert(0, f'sudo chown "$(id -un)" {" ".join(foreign)}')
    yield Finding(
        "files-open",
        "problem",
        f"Other users of this machine can use what is yours alone: {names}. The daemon refuses to start so.",
        f"`{' && '.join(commands)}`",
        str(told[0].path.name),
    )


def have_room(facts: Facts) -> Iterator[Finding]:
    """A disk that is nearly full."""
    for one in () if isinstance(facts.places, Unknown) else facts.places:
        if one.free_bytes < LEAST_BYTES[one.what]:
            yield Finding(
                "disk-full",
                "problem",
                f"{one.free_bytes / 2**20:.0f} MiB are free at {one.path}: history, learned speeds and "
                "pairings may not be kept.",
                f"Free some space there; `du -sh {shlex.quote(str(one.path))}` says what pairproxy has.",
                one.what,
            )
