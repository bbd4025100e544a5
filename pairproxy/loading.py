"""Reads Settings: defaults < config.toml < environment (PAIRPROXY_SECTION_KEY) < flags.

Unknown keys are an error that names the nearest known one.
"""

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from pairproxy.config import ENGINE_KINDS, EngineSettings, Section, Settings, check_endpoint, parse_listen
from pairproxy.core.errors import ConfigError
from pairproxy.core.policies import POLICIES
from pairproxy.origins import Origins


class Loaded(NamedTuple):
    """The settings, and where each of them comes from."""

    settings: Settings
    origins: Origins


def load(
    file: Path | None,
    environment: Mapping[str, str],
    flags: Mapping[str, Any] | None = None,
) -> Settings:
    """Read the settings, ``flags`` nested like the file. Raises ConfigError with the place of the fault."""
    return load_with_origins(file, environment, flags).settings


def load_with_origins(
    file: Path | None,
    environment: Mapping[str, str],
    flags: Mapping[str, Any] | None = None,
) -> Loaded:
    """The same, and whence. Raises ConfigError with the place of the fault."""
    text, tree = ("", dict[str, Any]()) if file is None else _read_toml(file)
    origins = Origins(file, text, environment, flags or {})
    _refuse_unknown_variables(environment)
    for section, values in _from_environment(environment).items():
        tree[section] = _over(tree.get(section, {}), values)
    for section, values in (flags or {}).items():
        tree[section] = _over(tree.get(section, {}), values)
    _refuse_unknown_keys(tree, origins)
    try:
        settings = msgspec.convert(tree, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(_explained(error, origins)) from None
    _refuse_senseless(settings, origins)
    return Loaded(settings, origins)


def _over(below: Any, values: Any) -> Any:
    """A section with ``values`` set in it. One that is none stays, so that the fault is told, not hidden."""
    if isinstance(values, Mapping) and isinstance(below, Mapping):
        return {**below, **values}
    return below if isinstance(values, Mapping) else values


def _refuse_senseless(settings: Settings, origins: Origins) -> None:
    """What has the right type and means nothing. Ports are opened at the next start: a fault in one must not
    wait until then (`pairproxy reload`).
    """
    places = {
        "peers.listen": settings.peers.listen,
        "admin.listen": settings.admin.listen,
        "clients.listen": settings.clients.listen or None,  # "": none
        **{f"engines[{n}].listen": entry.listen or None for n, entry in enumerate(settings.engines)},
    }
    key = "routing.policy"
    try:
        _refuse_unknown_policy(settings.routing.policy)
        key = "tracing.endpoint"
        if settings.tracing.endpoint:
            check_endpoint(settings.tracing.endpoint, key)
        for key, text in places.items():
            if text is not None:
                parse_listen(text, _written(key))
    except ConfigError as error:
        raise ConfigError(f"{origins.told(key)}: {error.sentence}") from None


def _refuse_unknown_policy(policy: str) -> None:
    if policy not in POLICIES:
        near = difflib.get_close_matches(policy, POLICIES, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(sorted(POLICIES))}."
        raise ConfigError(f"routing.policy: there is no policy {policy!r}. {hint}")


def _read_toml(file: Path) -> tuple[str, dict[str, Any]]:
    """A file's text and what it says. Raises ConfigError."""
    try:
        text = file.read_bytes().decode().replace("\r\n", "\n")
        return text, tomllib.loads(text)
    except FileNotFoundError:
        raise ConfigError(f"There is no settings file {file}. Leave it out to use the defaults.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} is not TOML: {error}.") from None
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}.") from None


def _fields(section: type) -> dict[str, type]:
    return {field.encode_name: field.type for field in msgspec.structs.fields(section)}


def _tables() -> dict[str, type]:
    return {name: kind for name, kind in _fields(Settings).items() if isinstance(kind, type)}


def _from_environment(environment: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for section, kind in _tables().items():
        if not issubclass(kind, Section):
            continue
        for key, value_kind in _fields(kind).items():
            text = environment.get(f"PAIRPROXY_{section}_{key}".upper())
            if text is not None:
                is_list = value_kind == tuple[str, ...]
                found.setdefault(section, {})[key] = _listed(text) if is_list else text
    return found


def _listed(text: str) -> list[str]:
    """The words between commas; a space beside one is not part of a model's name or an address."""
    return [word for word in map(str.strip, text.split(",")) if word]


def _refuse_unknown_variables(environment: Iterable[str]) -> None:
    """A variable that is mistyped would do nothing in silence."""
    tables = {name: kind for name, kind in _tables().items() if issubclass(kind, Section)}
    known = {f"PAIRPROXY_{table}_{key}".upper() for table, kind in tables.items() for key in _fields(kind)}
    known |= OTHER_VARIABLES
    for name in sorted(environment):
        if name.startswith("PAIRPROXY_") and name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"Did you mean {near[0]}?" if near else "docs/configuration.md lists those there are."
            raise ConfigError(f"There is no environment variable {name}. {hint}")


def _explained(error: msgspec.ValidationError, origins: Origins) -> str:
    """What is wrong, where, with the key as a person writes it."""
    text = str(error)
    what, _, path = text.partition(" - at `$.")
    key = path.rstrip("`")
    if re.search(r"`kind` - at `\$\.engines\[\d+\]`|`array`, got `object` - at `\$\.engines`", text):
        return f"{origins.told(key)}: {_ENTRY}"
    return f"{origins.told(key)}: {_written(key) or 'settings'}: {what}. Compare with docs/configuration.md."


def _written(key: str) -> str:
    """A key as it stands in the file: of one engine as of all."""
    return re.sub(r"\[[^\]]*\]", "", key)


def _refuse_unknown_keys(tree: Mapping[str, Any], origins: Origins) -> None:
    _refuse_unknown(tree, _fields(Settings), origins, "")
    for section, kind in _tables().items():
        if issubclass(kind, Section) and isinstance(tree.get(section), Mapping):
            _refuse_unknown(tree[section], _fields(kind), origins, f"{section}.")
    entries = tree.get("engines", ())
    for number, entry in enumerate(entries if isinstance(entries, list | tuple) else ()):
        if isinstance(entry, Mapping):
            _refuse_unknown(entry, _fields(EngineSettings), origins, f"engines[{number}].")


def _refuse_unknown(
    given: Mapping[str, Any], known: Mapping[str, Any], origins: Origins, prefix: str
) -> None:
    for key in given:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            shown = _written(prefix)
            hint = f"Did you mean {shown}{near[0]}?" if near else f"Known here: {', '.join(known)}."
            raise ConfigError(f"{origins.told(prefix + key)}: there is no setting {shown}{key}. {hint}")


OTHER_VARIABLES = {"PAIRPROXY_HOME", "PAIRPROXY_CACHE", "PAIRPROXY_CLIENTS"}  # the last: of scripts and tests
_ENTRY = (
    "each engine is an entry with two square brackets and a kind, such as\n[[engines]]\n"
    f'kind = "ollama"   # or {", ".join(ENGINE_KINDS[1:])}'
)
