"""A file to attach to a bug report: what doctor found and what it is judged by, redacted.

Never in it: keys, tokens, prompts, replies, names of runs. Stand-ins stand for the user, the host, the home,
peers, ids and addresses.
"""

import io
import json
import os
import platform
import re
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import psutil

from pairproxy import __version__, is_compiled
from pairproxy.core.errors import SetupError
from pairproxy.core.models import NodeId
from pairproxy.doctor.examining import Examined
from pairproxy.doctor.facts import Facts, Unknown
from pairproxy.doctor.probes.scene import COMMAND_S, Scene
from pairproxy.doctor.redacting import Redactor
from pairproxy.history import schema
from pairproxy.peers.own_addresses import snapshot
from pairproxy.security.identity import short_id
from pairproxy.takeover.running import CommandFailed

PACKAGES = (
    "aiohttp", "cryptography", "httptools", "ifaddr", "msgspec", "platformdirs", "prometheus-client",
    "psutil", "rich", "spake2", "typer", "uvloop", "xllamacpp", "zeroconf",
)  # fmt: skip
LOG_LINES = 400  # of the service's log, the last; an afternoon of a busy daemon
LOG_BYTES = 512 * 1024
LEFT_OUT = ("running", "waiting", "last_run", "current_run", "unpaired")
"""Of the status: clients name their runs as they like, and strangers are nobody's to tell of."""
SECRET = ("key", "token", "password", "secret")
KEY_FILES = ("key.pem", "clients/authority-key.pem", "clients/server.pem")
LOOPBACK = ("127.0.0.1", "::1")
_RUN = re.compile(r'\brun=(?:"(?:[^"\\]|\\.)*"|\S+)|"run": ?"(?:[^"\\]|\\.)*"')


class Written(NamedTuple):
    """What a bundle holds. ``replaced``: a sentence."""

    files: tuple[str, ...]
    replaced: str


def write(path: Path, scene: Scene, found: Examined) -> Written:
    """Make the file (0600). Raises SetupError if it is there already or cannot be written."""
    redactor = Redactor(known(scene, found.facts))
    texts = {name: redactor.value(part) for name, part in parts(scene, found)}
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(redactor.told.items()))
    replaced = f"Replaced by stand-ins: {counts}. Look into it before you send it."
    texts["read-me.txt"] = f"pairproxy doctor --bundle\n\n{__doc__}\n{replaced}\n"
    _refuse_secrets(scene.home, texts)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in texts.items():
            archive.writestr(name, part if isinstance(part, str) else json.dumps(part, indent=1))
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
        with open(descriptor, "wb") as file:  # noqa: PTH123 - it is open already
            file.write(packed.getvalue())
    except FileExistsError:
        raise SetupError(f"{path} is there already. Name another file, or remove that one.") from None
    except OSError as error:
        raise SetupError(f"{path} cannot be written: {error.strerror}. Name another file.") from None
    return Written(tuple(texts), replaced)


def known(scene: Scene, facts: Facts) -> Iterator[tuple[str, ...]]:
    """Everything that names somebody or something, as far as it is known here; see Redactor."""
    yield "pairproxy-home", str(scene.home)
    yield "home", str(scene.person)
    users = [scene.environment.get(name, "") for name in ("USER", "LOGNAME", "USERNAME")]
    with suppress(psutil.Error, OSError):
        users.append(psutil.Process().username().rpartition("\\")[2])
    yield "user", *users, scene.person.name
    yield "user", scene.environment.get("SUDO_USER", "")
    host = platform.node()
    yield "host", host, host.partition(".")[0]
    if not isinstance(facts.status, Unknown):
        for node in facts.status.nodes:
            yield _node(NodeId(node.node), node.name)
    for record in () if isinstance(facts.peers, Unknown) else facts.peers:
        yield _node(record.node, record.name)
        for address in record.addresses:
            yield "address", address.rpartition(":")[0].strip("[]")
    if not isinstance(facts.settings, Unknown):
        yield "node", facts.settings.node.name
        for place in facts.settings.peers.static:
            yield "address", place.rpartition(":")[0].strip("[]") or place
    for one in snapshot():
        yield "address", "" if one.address in LOOPBACK else one.address


def _node(node: NodeId, name: str) -> tuple[str, ...]:
    return "node", node, name, short_id(node), node[:8]


def parts(scene: Scene, found: Examined) -> Iterator[tuple[str, Any]]:
    """Each file of the bundle, not redacted yet: (name, text or JSON)."""
    facts = found.facts
    yield "diagnosis.json", msgspec.to_builtins(found.diagnosis)
    yield "machine.json", _machine(scene, facts)
    if not isinstance(facts.status, Unknown):
        told = msgspec.to_builtins(facts.status)
        yield "status.json", {key: value for key, value in told.items() if key not in LEFT_OUT}
    if not isinstance(facts.models, Unknown):
        yield "models.json", msgspec.to_builtins(facts.models)
    if not isinstance(facts.settings, Unknown):
        yield "settings.json", _without_secrets(msgspec.to_builtins(facts.settings))
    if log := _log(scene, facts):
        yield "log.txt", log


def _machine(scene: Scene, facts: Facts) -> dict[str, Any]:
    ports = {one.port for one in facts.engines} if isinstance(facts.engines, tuple) else set()
    ports |= set(facts.fronts)
    listening = facts.listeners if isinstance(facts.listeners, tuple) else ()
    return {
        "pairproxy": __version__,
        "is_compiled": is_compiled(),
        "python_build": facts.machine.python_build,
        "history_schema": schema.VERSION,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processors": psutil.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "packages": dict(_packages()),
        "variables_set": sorted(
            one for one in scene.environment if one.startswith(("PAIRPROXY_", "OLLAMA_"))
        ),
        "listening_on_their_ports": [
            {"host": one.host, "port": one.port, "program": one.name}
            for one in listening
            if one.port in ports
        ],
        **{
            name: _plain(getattr(facts, name))
            for name in (
                "engines",
                "cards",
                "firewall",
                "files",
                "places",
                "moved",
                "services",
                "process",
                "measured",
            )
        },
    }


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value, enc_hook=str)


def _packages() -> Iterator[tuple[str, str]]:
    for name in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            yield name, metadata.version(name)


def _without_secrets(value: Any) -> Any:
    """What a field's name says is secret, or the way to it, is not told."""
    if isinstance(value, dict):
        return {
            key: "(set)"
            if one and any(word in key for word in SECRET) and isinstance(one, str)
            else _without_secrets(one)
            for key, one in value.items()
        }
    return [_without_secrets(one) for one in value] if isinstance(value, list) else value


def _log(scene: Scene, facts: Facts) -> str:
    """The last lines of the service's log, where the system keeps one; "": there is none."""
    for one in facts.own_services:
        words = one.log.split()
        if words[:1] == ["journalctl"]:
            argv = [*words, f"--lines={LOG_LINES}", "--output=cat", "--no-pager", "--quiet"]
            with suppress(CommandFailed):
                text = scene.runner.run(argv, timeout_s=COMMAND_S).out
                return _RUN.sub("run=(left out)", text[-LOG_BYTES:])
        with suppress(OSError), Path(one.log).open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LOG_BYTES))
            return _RUN.sub("run=(left out)", file.read().decode(errors="replace"))
    return ""


def _refuse_secrets(home: Path, texts: dict[str, Any]) -> None:
    """A last look: no line of the key, no token. Raises SetupError."""
    secrets = []
    for name in KEY_FILES:
        with suppress(OSError, ValueError):
            secrets += [line for line in (home / name).read_text().splitlines() if "-----" not in line]
    with suppress(OSError, ValueError, AttributeError):
        secrets.append(json.loads((home / "daemon.json").read_text()).get("token", ""))
    for text in texts.values():
        whole = text if isinstance(text, str) else json.dumps(text)
        if any(secret and secret in whole for secret in secrets):
            raise SetupError("A secret of this machine would stand in the file, so it was not written.")
