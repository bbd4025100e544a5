"""Reads Settings: defaults < config.toml < environment (PAIRPROXY_SECTION_KEY) < flags.

Unknown keys are an error that names the nearest known one.
"""

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from pairproxy.config import ENGINE_KINDS, EngineSettings, Section, Settings, check_endpoint, parse_listen
from pairproxy.core.errors import ConfigError
from pairproxy.core.policies import POLICIES


def load(
    file: Path | None,
    environment: Mapping[str, str],
    flags: Mapping[str, Any] | None = None,
) -> Settings:
    """Read the settings, ``flags`` nested like the file. Raises ConfigError with the place of the fault."""
    tree: dict[str, Any] = {}
    if file is not None:
        tree = _read_toml(file)
    _refuse_unknown_variables(environment)
    for section, values in _from_environment(environment).items():
        tree[section] = _over(tree.get(section, {}), values)
    for section, values in (flags or {}).items():
        tree[section] = _over(tree.get(section, {}), values)
    _refuse_unknown_keys(tree, file)
    try:
        settings = msgspec.convert(tree, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{file or 'settings'}: {_explained(error)}") from None
    if settings.routing.policy not in POLICIES:
        near = difflib.get_close_matches(settings.routing.policy, POLICIES, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(sorted(POLICIES))}."
        raise ConfigError(f"routing.policy: there is no policy {settings.routing.policy!r}. {hint}")
    _refuse_no_places(settings)
    return settings


def _over(below: Any, values: Any) -> Any:
    """A section with ``values`` set in it. One that is none stays, so that the fault is told, not hidden."""
    if isinstance(values, Mapping) and isinstance(below, Mapping):
        return {**below, **values}
    return below if isinstance(values, Mapping) else values


def _refuse_no_places(settings: Settings) -> None:
    """Ports are opened at the next start: a fault in one must not wait until then (`pairproxy reload`)."""
    parse_listen(settings.peers.listen, "peers.listen")
    parse_listen(settings.admin.listen, "admin.listen")
    if settings.clients.listen:  # "": none
        parse_listen(settings.clients.listen, "clients.listen")
    if settings.tracing.endpoint:
        check_endpoint(settings.tracing.endpoint, "tracing.endpoint")
    for entry in settings.engines:
        if entry.listen:  # "": no client port
            parse_listen(entry.listen, "engines.listen")


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as stream:
            return tomllib.load(stream)
    except FileNotFoundError:
        raise ConfigError(
            f"There is no settings file {file}. Leave --config out to use the defaults."
        ) from None
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


def _explained(error: msgspec.ValidationError) -> str:
    """What is wrong, with the key as a person writes it."""
    text = str(error)
    if re.search(r"`kind` - at `\$\.engines\[\d+\]`|`array`, got `object` - at `\$\.engines`", text):
        return _ENTRY
    what, _, path = text.partition(" - at `$.")
    key = re.sub(r"\[[^\]]*\]", "", path.rstrip("`"))
    return f"{key or 'settings'}: {what}. Compare with docs/configuration.md."


def _refuse_unknown_keys(tree: Mapping[str, Any], file: Path | None) -> None:
    where = str(file) if file else "settings"
    _refuse_unknown(tree, _fields(Settings), where, "")
    for section, kind in _tables().items():
        if issubclass(kind, Section) and isinstance(tree.get(section), Mapping):
            _refuse_unknown(tree[section], _fields(kind), where, f"{section}.")
    entries = tree.get("engines", ())
    for entry in entries if isinstance(entries, list | tuple) else ():
        if isinstance(entry, Mapping):
            _refuse_unknown(entry, _fields(EngineSettings), where, "engines.")


def _refuse_unknown(given: Mapping[str, Any], known: Mapping[str, Any], where: str, prefix: str) -> None:
    for key in given:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"Did you mean {prefix}{near[0]}?" if near else f"Known here: {', '.join(known)}."
            raise ConfigError(f"{where}: there is no setting {prefix}{key}. {hint}")


OTHER_VARIABLES = {"PAIRPROXY_HOME", "PAIRPROXY_CACHE", "PAIRPROXY_CLIENTS"}  # the last: of scripts and tests
_ENTRY = (
    "each engine is an entry with two square brackets and a kind, such as\n[[engines]]\n"
    f'kind = "ollama"   # or {", ".join(ENGINE_KINDS[1:])}'
)
