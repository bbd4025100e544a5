"""Settings of a person's environment by which clients get past the front: found, told, never changed.

A client that is told an engine's private port asks it directly: it works, and nothing of it is distributed.
A client that sends what is for localhost to an HTTP proxy of the company reaches nothing at all.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pairproxy.engines.ports import PORTS
from pairproxy.takeover import ollama_host
from pairproxy.takeover.asking import HOST
from pairproxy.takeover.machine import Variables
from pairproxy.takeover.running import CommandFailed, Runner

OLLAMA_HOST = ollama_host.VARIABLE
URLS = (
    "OPENAI_BASE_URL",  # OpenAI's own clients
    "OPENAI_API_BASE",  # older ones, LangChain, LiteLLM
    "ANTHROPIC_BASE_URL",  # Anthropic's clients, Claude Code; written by `ollama launch`
    "CODEX_OSS_BASE_URL",
    "OLLAMA_API_BASE",  # LiteLLM
    "OLLAMA_BASE_URL",  # Open WebUI and many more
    "LM_STUDIO_API_BASE",  # LiteLLM
    "LMSTUDIO_BASE_URL",
)
PORT = "CODEX_OSS_PORT"
PROXIES = ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")
EXEMPT = ("NO_PROXY", "no_proxy")
VARIABLES = (OLLAMA_HOST, *URLS, PORT, *PROXIES, *EXEMPT)
"""All that leaks() looks at."""

FRONTS = frozenset(ports.usual for ports in PORTS.values() if ports.moved is not None)
PRIVATE = frozenset(ports.moved for ports in PORTS.values() if ports.moved is not None)
SESSION = "your macOS session (`launchctl unsetenv NAME`)"
OWN, MACHINE = "your environment variables of Windows", "the machine's environment variables of Windows"
LAUNCHCTL_S = 5.0  # it answers within milliseconds
MOST_BYTES = 256 * 1024  # of one shell file; written by hand they have a few KiB
SHELL_FILES = (
    ".profile", ".bash_profile", ".bash_login", ".bashrc", ".zshenv", ".zprofile", ".zshrc", ".zlogin",
    ".config/fish/config.fish",
)  # fmt: skip
SESSION_FILES = ".config/environment.d"  # of systemd: *.conf, for every program of a desktop session
"""Relative to a person's home: where shells and sessions are told variables."""

_ASSIGNMENT = re.compile(
    r"^\s*(?:(?:export|setenv|declare\s+-x|typeset\s+-x|set(?:\s+-[a-zA-Z]+|\s+--[a-z]+)+)\s+)?"
    r"([A-Za-z_][A-Za-z0-9_]*)(?:=|\s+)(\"[^\"]*\"|'[^']*'|[^\s;#]*)"
)


@dataclass(frozen=True, slots=True)
class Leak:
    """One variable that leads clients past the front. Sentences are for a person."""

    variable: str
    where: str
    what: str
    mend: str


def leaks(
    environment: Mapping[str, str],
    where: str,
    fronts: Collection[int] = FRONTS,
    private: Collection[int] = PRIVATE,
) -> list[Leak]:
    """Those of one environment, in the order of VARIABLES.

    ``where`` it was found ("this shell"); ``fronts`` and ``private``: ports of this machine. No value is
    repeated: some hold passwords.
    """
    found = [*_of_ollama(environment, where, fronts, private), *_of_urls(environment, where, private)]
    if (port := environment.get(PORT, "")).isdigit() and int(port) in private:
        found.append(_past(PORT, where, int(port)))
    return [*found, *_of_proxies(environment, where)]


def read_shell_files(home: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """What the shells of a person are told: (path, the VARIABLES set in it), for files that set any.

    The last assignment of a file counts; what a shell would work out ($(...), a condition) is not.
    """
    for path in (*(home / name for name in SHELL_FILES), *sorted((home / SESSION_FILES).glob("*.conf"))):
        try:
            with path.open("rb") as file:
                text = file.read(MOST_BYTES).decode(errors="replace")
        except OSError:
            continue
        told = assigned(text)
        if told:
            yield str(path), told


def read_session(runner: Runner, variables: Variables | None) -> Iterator[tuple[str, dict[str, str]]]:
    """What the system tells programs that are started from its desktop: (where, the VARIABLES set there).

    The one that a takeover itself set on Windows is left out: it has to stay.
    """
    if runner.which("launchctl") is not None:
        told = {name: _of_launchd(name, runner) for name in VARIABLES}
        yield SESSION, {name: value for name, value in told.items() if value}
    if variables is not None:
        own = {name: found[0] for name in VARIABLES if (found := variables.get(name)) is not None}
        if own.get(OLLAMA_HOST) in {f"{HOST}:{port}" for port in PRIVATE}:
            del own[OLLAMA_HOST]
        machine = {name: value for name in VARIABLES if (value := variables.of_machine(name)) is not None}
        yield OWN, own
        yield MACHINE, machine


def _of_launchd(name: str, runner: Runner) -> str:
    try:
        done = runner.run(["launchctl", "getenv", name], timeout_s=LAUNCHCTL_S)
    except CommandFailed:
        return ""
    return done.out.strip() if done.is_ok else ""


def assigned(text: str) -> dict[str, str]:
    """The VARIABLES that the lines of a shell file set, in sh, csh and fish alike."""
    told: dict[str, str] = {}
    for line in text.splitlines():
        hit = _ASSIGNMENT.match(line)
        if hit is not None and hit[1] in VARIABLES:
            told[hit[1]] = hit[2].strip("\"'")
    return told


def _of_ollama(
    environment: Mapping[str, str], where: str, fronts: Collection[int], private: Collection[int]
) -> Iterator[Leak]:
    value = environment.get(OLLAMA_HOST, "").strip()
    if not value:
        return
    address = ollama_host.read(value)
    if address.is_here and address.port in fronts:
        return
    if address.is_here and address.port in private:
        yield _past(OLLAMA_HOST, where, address.port)
        return
    if address.is_here:
        what = f"Ollama's clients ask port {address.port} of this machine, where pairproxy does not answer."
    else:
        what = "Ollama's clients ask another machine, so that nothing of it is distributed from here."
    yield Leak(OLLAMA_HOST, where, what, _unset(OLLAMA_HOST, where))


def _of_urls(environment: Mapping[str, str], where: str, private: Collection[int]) -> Iterator[Leak]:
    for name in URLS:
        try:
            parts = urlsplit(environment.get(name, "").strip())
            host, port = parts.hostname or "", parts.port
        except ValueError:
            continue
        if port in private and ollama_host.Address(host, port or 0).is_here and host:
            yield _past(name, where, port or 0)


def _of_proxies(environment: Mapping[str, str], where: str) -> Iterator[Leak]:
    exempt = {
        one.strip().lower() for name in EXEMPT for one in environment.get(name, "").split(",") if one.strip()
    }
    if "*" in exempt or {"localhost", "127.0.0.1"} <= exempt:
        return
    for name in PROXIES:
        if environment.get(name, "").strip():
            what = "Programs that obey it send what they ask of localhost to that proxy, not to this machine."
            yield Leak(name, where, what, "Set NO_PROXY=localhost,127.0.0.1,::1 beside it.")
            return


def _past(name: str, where: str, port: int) -> Leak:
    what = f"Programs that obey it ask port {port}, the engine itself: it works, and nothing is distributed."
    return Leak(name, where, what, _unset(name, where))


def _unset(name: str, where: str) -> str:
    return f"Remove {name} from {where} and start those programs again; without it they find pairproxy."
