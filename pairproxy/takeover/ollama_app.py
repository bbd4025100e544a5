"""What the Ollama apps of macOS and Windows share: "Expose Ollama to the network", only looked at."""

import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from pairproxy.takeover import ollama_host
from pairproxy.takeover.moving import CannotTake, Owner

DATABASE = "db.sqlite"  # of the app, table settings (app/store/schema.sql)
PID_FILE = "ollama.pid"  # of the server that the app started
BUSY_S = 1.0  # for the app's database, when the app writes to it


def refuse_exposed(directory: Path, owner: Owner, variable: str) -> None:
    """Raise CannotTake if the app is set to serve to the network, or does so and nothing else explains it.

    ``directory``: where the app keeps its files; ``variable``: the OLLAMA_HOST that it was started with.
    """
    setting = is_set_to_expose(directory / DATABASE)
    explained = ollama_host.read(variable).is_exposed
    if setting or (setting is None and owner.is_exposed and not explained):
        raise CannotTake(
            "The Ollama app is set to serve to the network, which beats every other setting: it would fight "
            "pairproxy for the port. Turn off `Expose Ollama to the network` in the app's settings (other "
            "machines pair instead), and run `pairproxy takeover` again."
        )


def is_set_to_expose(database: Path) -> bool | None:
    """The app's setting; None if it cannot be read."""
    if not database.is_file():
        return None
    try:
        address = f"file:{quote(database.as_posix())}?mode=ro"
        with closing(sqlite3.connect(address, uri=True, timeout=BUSY_S)) as connection:
            row = connection.execute("SELECT expose FROM settings LIMIT 1").fetchone()
    except sqlite3.Error:
        return None
    return bool(row[0]) if row is not None else None


def is_of_app(directory: Path, owner: Owner) -> bool:
    """Whether the app says that it started this server; one that says nothing is believed to have."""
    try:
        told = (directory / PID_FILE).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        told = ""
    return not told or owner.pid is None or told == str(owner.pid)


def exposed(owner: Owner, variable: str) -> tuple[str, ...]:
    """What a person has to agree to where other machines reach the engine by its variable."""
    if not owner.is_exposed:
        return ()
    how = f" ({ollama_host.VARIABLE}={variable})" if variable else ""
    warning = (
        f"Other machines can reach this engine now{how}. After the takeover they cannot: it is on loopback "
        "only. Pair those machines instead, or do not take it over."
    )
    return (warning,)
