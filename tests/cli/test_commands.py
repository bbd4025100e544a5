from importlib.machinery import EXTENSION_SUFFIXES

import pytest
import typer

from pairproxy import __version__, is_compiled
from pairproxy.cli.commands import app
from pairproxy.core import scheduler
from tests.support.command import pairproxy

HEAVY = ("aiohttp", "asyncio", "cryptography", "pairproxy.daemon", "prometheus", "sqlite3", "zeroconf")


def test_every_command_says_what_it_does() -> None:
    """In its list each has a sentence, and no paragraph of a help breaks where its source does."""
    root = typer.main.get_command(app)
    assert isinstance(root, typer.core.TyperGroup)
    for name, command in root.commands.items():
        assert command.help, name
        assert all("\n" not in one for one in command.help.split("\n\n")), name


@pytest.mark.parametrize("asked", ["--help", "--version"])
def test_what_needs_no_daemon_is_told_in_a_moment(asked: str) -> None:
    """Nothing of network, cryptography or a daemon is imported for it, as Python itself tells."""
    done = pairproxy(asked, flags=("-X", "importtime"))
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if "|" in line}
    assert done.returncode == 0
    assert "pairproxy.cli.commands" in imported
    assert not {name for name in imported if name.startswith(HEAVY)}


def test_the_version_says_whether_it_is_compiled() -> None:
    """Of the package that runs here, and the same in a process of its own."""
    assert is_compiled() is str(scheduler.__file__).endswith(tuple(EXTENSION_SUFFIXES))
    told = f"pairproxy {__version__} (compiled)" if is_compiled() else f"pairproxy {__version__}"
    assert pairproxy("--version").stdout.strip() == told
