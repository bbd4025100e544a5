"""pairproxy keys: for programs that cannot reach loopback, and the certificate that they have to trust."""

import datetime
import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pairproxy.cli.completing import key_names
from pairproxy.cli.options import Home, Json, home_or_default, plain
from pairproxy.cli.trusting import Models

if TYPE_CHECKING:
    from pairproxy.config import Settings

app = typer.Typer(
    no_args_is_help=True,
    help="Keys for programs that cannot reach loopback: containers, WSL, a machine without pairproxy.\n\n"
    "They call the port of clients.listen by TLS and show a key with every request (docs/containers.md).\n\n"
    "Examples: `pairproxy keys add web-ui`, `pairproxy keys certificate > pairproxy.pem`, "
    "`pairproxy keys list`, `pairproxy keys revoke web-ui`.",
)

Slots = Annotated[
    int | None, typer.Option(min=1, help="Of its requests, so many run at once; further ones wait.")
]
KeyName = Annotated[
    str, typer.Argument(help="Who is given the key: web-ui, ci. Reports name its requests by it.")
]
_HOW = """\
Programs send it where they have a field for an API key (Authorization: Bearer, x-api-key or api-key).
They call https://host.docker.internal:{where} from a container of this machine, \
https://{name}.local:{where} from another machine; OpenAI's clients with /v1 behind it.
They have to trust a certificate: `pairproxy keys certificate > pairproxy.pem`, then \
SSL_CERT_FILE=pairproxy.pem (Python, Go), NODE_EXTRA_CA_CERTS=pairproxy.pem (Node), \
REQUESTS_CA_BUNDLE=pairproxy.pem (requests), `curl --cacert pairproxy.pem`.
docs/containers.md has it step by step for Docker, Podman, WSL and dev containers."""
TITLES = ("key", "made", "models", "slots")


@app.command()
def add(
    name: KeyName, models: Models = None, slots: Slots = None, home: Home = None, as_json: Json = False
) -> None:
    """Make a key and print it, once: nobody can read it again. It counts at once.

    Standard output has the key and nothing else, so that a script can take it.

    Examples: `pairproxy keys add web-ui`, `pairproxy keys add ci --model 'qwen*' --slots 1`.
    """
    from pairproxy.api.client import keys_changed
    from pairproxy.core.errors import PairproxyError
    from pairproxy.security.client_keys import ClientKeys

    directory = home_or_default(home)
    key, kept = ClientKeys(directory).add(name, tuple(models or ()), slots)
    if not as_json:  # before anything can fail: nobody can read it again
        typer.echo(f"The key {plain(name)}, shown this once:", err=True)
        typer.echo(key)
        sys.stdout.flush()
    port, why, failed = None, "", None
    try:
        found = keys_changed(directory)
        port, why = (found.port, found.why) if found is not None else (None, _without_daemon(directory))
    except PairproxyError as error:
        found, failed, why = None, error, error.sentence
    if as_json:
        import msgspec

        from pairproxy.api.commands import KeyMade

        made = KeyMade(name, key, kept.models, kept.slots, found is not None, port, why)
        typer.echo(msgspec.json.encode(made).decode())
    else:
        _say_how_to_go_on(port, "" if failed else why)
    if failed is not None:
        raise failed


@app.command(name="list")
def list_(home: Home = None, as_json: Json = False) -> None:
    """Show the keys by their names, and what each may have. What they are is not kept.

    Examples: `pairproxy keys list`, `pairproxy keys list --json`.
    """
    from pairproxy.api.commands import KeyList, ListedKey
    from pairproxy.cli.printing import console, say, show_table
    from pairproxy.security.client_keys import NO_KEYS, ClientKeys

    keys = ClientKeys(home_or_default(home)).read()
    if as_json:
        import msgspec

        listed = KeyList(tuple(ListedKey(one.name, one.added_at, one.models, one.slots) for one in keys))
        typer.echo(msgspec.json.format(msgspec.json.encode(listed), indent=2).decode())
        return
    out = console()
    if not keys:
        say(out, NO_KEYS)
        return
    rows = [
        (
            plain(one.name),
            datetime.datetime.fromtimestamp(one.added_at, datetime.UTC).astimezone().date().isoformat(),
            ", ".join(map(plain, one.models)) or "all",
            "any number" if one.slots is None else str(one.slots),
        )
        for one in keys
    ]
    show_table(out, TITLES, rows, frozenset(TITLES))


@app.command()
def revoke(
    name: Annotated[
        str, typer.Argument(help="Its name, as `pairproxy keys list` shows it.", autocompletion=key_names)
    ],
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Take a key no longer, at once: what runs for it is broken off.

    Examples: `pairproxy keys revoke web-ui`.
    """
    from pairproxy.api.client import keys_changed
    from pairproxy.security.client_keys import ClientKeys

    directory = home_or_default(home)
    gone = ClientKeys(directory).revoke(name)
    has_daemon = keys_changed(directory) is not None
    if as_json:
        import msgspec

        from pairproxy.api.commands import KeyRevoked

        typer.echo(msgspec.json.encode(KeyRevoked(gone.name, has_daemon)).decode())
        return
    done = "Who shows it is cut off." if has_daemon else "No daemon runs here; the next one will not take it."
    typer.echo(f"Revoked {plain(gone.name)}. {done}")


@app.command()
def certificate(home: Home = None) -> None:
    """Print the certificate that clients with keys have to trust (PEM). It is no secret.

    It stays the same when this machine's addresses change; another clients.names may need another one.

    Examples: `pairproxy keys certificate > pairproxy.pem`.
    """
    from pairproxy.security.client_authority import authority_pem, served

    directory = home_or_default(home)
    pem = authority_pem(directory)
    if pem is None:
        from pairproxy.security.private_files import ensure_private_directory

        ensure_private_directory(directory)
        served(directory, _settings(directory).clients.names, socket.gethostname(), ())
        pem = authority_pem(directory) or b""
    typer.echo(pem.decode("ascii", "replace"), nl=False)


def _say_how_to_go_on(port: int | None, why: str) -> None:
    from pairproxy.cli.printing import console, say

    out = console(to_stderr=True)
    if why:
        say(out, why)
    where = port or "PORT"
    name = plain(socket.gethostname().partition(".")[0].lower())
    for line in _HOW.format(where=where, name=name).splitlines():
        say(out, line)


def _without_daemon(home: Path) -> str:
    """Why the key is taken nowhere yet, where no daemon runs."""
    from pairproxy.security.client_keys import NO_LISTEN

    if not _settings(home).clients.listen:
        return NO_LISTEN
    return "No daemon runs here; the next one will take it (`pairproxy up`)."


def _settings(home: Path) -> "Settings":
    from pairproxy.loading import load

    usual = home / "config.toml"
    return load(usual if usual.exists() else None, os.environ)
