"""pairproxy config: the settings, where each comes from, and whether a file of them is good."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pairproxy.api.settings import Checked, ConfigPath, ShownSetting, ShownSettings
from pairproxy.cli.options import Home, Json, home_or_default, plain

if TYPE_CHECKING:
    from pairproxy.api.settings import SettingsInForce
    from pairproxy.loading import Loaded
    from pairproxy.origins import Origins

app = typer.Typer(
    no_args_is_help=True,
    help="The settings: what counts, where each comes from, and whether a file of them is good.\n\n"
    "Examples: `pairproxy config show`, `pairproxy config check mine.toml`, `pairproxy config path`.",
)

Config = Annotated[Path | None, typer.Option(help="Settings file. Default: config.toml in the home.")]
File = Annotated[Path | None, typer.Argument(help="Settings file. Default: config.toml in the home.")]
Changed = Annotated[bool, typer.Option("--changed", help="Only what is not the default, or not in force.")]
COLUMN = 44  # where the remarks begin, if the values are short enough


@app.command()
def show(config: Config = None, changed: Changed = False, home: Home = None, as_json: Json = False) -> None:
    """Show every setting and where it comes from, as a file that could be used. Secrets are hidden.

    Where a daemon runs, it says which values differ from those in force.

    Examples: `pairproxy config show`, `pairproxy config show --changed`, `pairproxy config show --json`.
    """
    found = _shown(home_or_default(home), config)
    if as_json:
        import msgspec

        typer.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
        return
    typer.echo(f"# {plain(found.file)}{'' if found.is_there else ' (there is no such file)'}")
    for line in _lines(found, _wanted(found, changed=changed)):
        typer.echo(line)


@app.command()
def check(file: File = None, home: Home = None, as_json: Json = False) -> None:
    """Say whether a settings file, with the variables of the environment, is good. Exit status 1 if not.

    Examples: `pairproxy config check`, `pairproxy config check mine.toml`.
    """
    from pairproxy.core.errors import ConfigError

    path, is_there = _file(home_or_default(home), file)
    problem: ConfigError | None = None
    try:
        _load(path if is_there or file is not None else None)
    except ConfigError as error:
        problem = error
    if as_json:
        import msgspec

        said = problem.sentence if problem is not None else ""
        typer.echo(msgspec.json.encode(Checked(str(path), is_there, said)).decode())
        if problem is not None:
            raise typer.Exit(1)
    elif problem is not None:
        raise problem
    elif is_there:
        typer.echo(f"{plain(str(path))} is good.")
    else:
        typer.echo(f"There is no {plain(str(path))}; the defaults and the environment are good.")


@app.command()
def path(home: Home = None, as_json: Json = False) -> None:
    """Print where the settings file is, or would be.

    Examples: `pairproxy config path`, `$EDITOR "$(pairproxy config path)"`.
    """
    found, is_there = _file(home_or_default(home), None)
    if as_json:
        import msgspec

        typer.echo(msgspec.json.encode(ConfigPath(str(found), is_there)).decode())
        return
    typer.echo(str(found))
    if not is_there:
        typer.echo("There is no such file yet; with none it works, too (docs/configuration.md).", err=True)


def _file(home: Path, named: Path | None) -> tuple[Path, bool]:
    """The settings file, and whether it is there."""
    found = named if named is not None else home / "config.toml"
    return found, found.exists()


def _load(file: Path | None) -> "Loaded":
    from pairproxy.loading import load_with_origins

    found = load_with_origins(file, os.environ)
    _refuse_what_starts_refuse(found)
    return found


def _refuse_what_starts_refuse(found: "Loaded") -> None:
    """What only a start would tell. Raises ConfigError."""
    from pairproxy.core.errors import ConfigError
    from pairproxy.peers.addresses import static_addresses
    from pairproxy.security.client_authority import parse_name

    key = "peers.static"
    try:
        static_addresses(found.settings.peers.static)
        key = "clients.names"
        for name in found.settings.clients.names:
            parse_name(name)
    except ConfigError as error:
        raise ConfigError(f"{found.origins.told(key)}: {error.sentence}") from None


def _shown(home: Path, named: Path | None) -> ShownSettings:
    from pairproxy.effective import flat

    file, is_there = _file(home, named)
    settings, origins = _load(file if is_there or named is not None else None)
    in_force = _in_force(home)
    values = flat(settings)
    told = in_force.settings if in_force is not None else values
    gone = [key for key in told if key not in values]  # entries of engines that the file has no more
    shown = [_one(key, values.get(key), told, origins, is_here=key in values) for key in (*values, *gone)]
    return ShownSettings(str(file), is_there, in_force is not None, tuple(shown))


def _one(key: str, value: Any, told: dict[str, Any], origins: "Origins", *, is_here: bool) -> ShownSetting:
    from pairproxy.reloading import LIVE

    origin = origins.of(key)
    found = ShownSetting(
        key,
        value,
        origin.source,
        origin.where if origin.source == "environment" else "",
        origin.line,
    )
    is_same = told[key] == value if key in told else origin.source == "default"
    if is_here and is_same:
        return found
    import msgspec

    remedy = "reload" if key in LIVE else "restart"
    return msgspec.structs.replace(found, differs=True, in_force=told.get(key), remedy=remedy)


def _in_force(home: Path) -> "SettingsInForce | None":
    """What the running daemon goes by; None where none runs, or none that tells it."""
    from pairproxy.api.client import NoDaemon, get_settings
    from pairproxy.core.errors import PairproxyError

    try:
        return get_settings(home)
    except (NoDaemon, PairproxyError):
        return None


def _wanted(found: ShownSettings, *, changed: bool) -> list[ShownSetting]:
    """Those to show; the speeds of an engine that has none of its own are no setting of anybody."""
    kinds = {one.key: one.value for one in found.settings if one.key.endswith("].kind")}
    return [
        one
        for one in found.settings
        if (not changed or one.differs or one.source != "default")
        and (".paced." not in one.key or one.source != "default" or kinds[_kind_of(one.key)] == "paced")
    ]


def _kind_of(key: str) -> str:
    return f"{key.partition('].')[0]}].kind"


def _lines(found: ShownSettings, wanted: list[ShownSetting]) -> Iterator[str]:
    """The settings as TOML, each with a remark; what has no value is a remark as a whole."""
    table = ""
    for one in wanted:
        head, _, name = one.key.rpartition(".")
        if head != table:
            table = head
            yield from ("", _head(head)) if head else ("",)
        text = _toml(name or one.key, one.value)
        yield f"{plain(text):{COLUMN}}  # {_remark(one)}"
    if not wanted:
        yield "# All settings are the defaults."
    if any(one.differs for one in found.settings):
        yield ""
        yield "# In force: what the running daemon goes by. Change it by `pairproxy reload`, or start it"
        yield "# again; its own flags and variables win over the file."


def _head(table: str) -> str:
    """The head of a table; each first key of an engine begins an entry."""
    name, bracket, rest = table.partition("[")
    if not bracket:
        return f"[{table}]"
    _, _, below = rest.partition("].")
    return f"[{name}.{below}]" if below else f"[[{name}]]"


def _toml(name: str, value: Any) -> str:
    import json

    if value is None or (value == [] and name == "engines"):
        return f"# {name}: {'found by probing' if name == 'engines' else 'none'}"
    if isinstance(value, dict):
        inner = ", ".join(
            f"{json.dumps(k, ensure_ascii=False)} = {json.dumps(v, ensure_ascii=False)}"
            for k, v in value.items()
        )
        return f"{name} = {{ {inner} }}" if inner else f"{name} = {{}}"
    return f"{name} = {json.dumps(value, ensure_ascii=False)}"


def _remark(one: ShownSetting) -> str:
    """Where a value comes from, and what is in force instead."""
    import json

    words = {
        "default": "default",
        "file": f"line {one.line}" if one.line is not None else "the file",
        "environment": one.variable,
        "flag": "a flag",
    }[one.source]
    if not one.differs:
        return words
    value = "none" if one.in_force is None else plain(json.dumps(one.in_force, ensure_ascii=False))
    return f"{words}; in force: {value}, {'reload' if one.remedy == 'reload' else 'restart'} to change"
