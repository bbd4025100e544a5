"""Where a person's programs keep their files, by the environment in which commands are run."""

from pathlib import Path

from pairproxy.takeover.running import Runner


def home_of(runner: Runner) -> Path:
    """The person's home directory."""
    told = runner.environment.get("HOME") or runner.environment.get("USERPROFILE")
    return Path(told) if told else Path.home()
