"""Variables that lead clients past the front."""

from pathlib import Path

import pytest

from pairproxy.takeover.leaks import (
    MACHINE,
    OWN,
    SESSION,
    VARIABLES,
    assigned,
    leaks,
    read_session,
    read_shell_files,
)
from pairproxy.takeover.registry import MACHINE as MACHINE_KEY
from pairproxy.takeover.registry import REG_SZ, USER, UserVariables
from tests.support.stand_ins import StandIns
from tests.support.winreg import FileRegistry

HARMLESS = [
    {},
    {"OLLAMA_HOST": ""},
    {"OLLAMA_HOST": "127.0.0.1:11434"},
    {"OLLAMA_HOST": "localhost"},
    {"OLLAMA_HOST": "0.0.0.0"},
    {"OPENAI_BASE_URL": "http://localhost:11434/v1"},
    {"OPENAI_BASE_URL": "https://api.openai.com/v1"},
    {"ANTHROPIC_BASE_URL": "http://[odd"},
    {"OLLAMA_BASE_URL": "http://192.168.1.9:11534"},
    {"CODEX_OSS_PORT": "11434"},
    {"HTTP_PROXY": "http://proxy:3128", "NO_PROXY": "corp.example, localhost,127.0.0.1"},
    {"http_proxy": "http://proxy:3128", "no_proxy": "*"},
    {"HTTPS_PROXY": "http://proxy:3128"},
]
LEAKING = {
    "OLLAMA_HOST": "127.0.0.1:11534",
    "OPENAI_BASE_URL": "http://localhost:12340/v1",
    "ANTHROPIC_BASE_URL": "http://127.0.0.1:11534",
    "OLLAMA_API_BASE": "http://[::1]:11534",
    "CODEX_OSS_PORT": "11534",
    "all_proxy": "socks5://user:secret@proxy:1080",
}


@pytest.mark.parametrize("environment", HARMLESS, ids=str)
def test_nothing_is_said_of_what_leads_to_the_front_or_elsewhere(environment: dict[str, str]) -> None:
    """Only what was meant for this machine can pass its front by."""
    assert leaks(environment, "this shell") == []


@pytest.mark.parametrize("name", LEAKING)
def test_each_leak_is_named_with_what_to_do(name: str) -> None:
    """One finding, which tells where it is and how it ends, and never the value."""
    (found,) = leaks({name: LEAKING[name]}, "this shell")
    assert found.variable == name
    assert "this shell" in found.mend or "NO_PROXY" in found.mend
    assert "secret" not in found.what + found.mend


def test_all_of_an_environment_are_found_at_once() -> None:
    """In the order in which they are listed."""
    found = [one.variable for one in leaks(LEAKING, "this shell")]
    assert found == [name for name in VARIABLES if name in LEAKING]


@pytest.mark.parametrize("value", ["127.0.0.1:9999", "studio.local"])
def test_ollamas_clients_that_are_sent_elsewhere_are_told_of(value: str) -> None:
    """Another port of this machine, and another machine."""
    (found,) = leaks({"OLLAMA_HOST": value}, "this shell")
    assert "another machine" in found.what or "9999" in found.what


def test_own_ports_count_where_they_are_told() -> None:
    """A front at a port of its own is the front."""
    assert leaks({"OLLAMA_HOST": ":11600"}, "this shell", fronts=(11600,)) == []
    assert leaks({"OLLAMA_HOST": ":11434"}, "this shell", fronts=(11600,)) != []


@pytest.mark.parametrize(
    "line",
    [
        "export OLLAMA_HOST=127.0.0.1:11534",
        "OLLAMA_HOST='127.0.0.1:11534'",
        '  export OLLAMA_HOST="127.0.0.1:11534"  # the engine',
        "set -gx OLLAMA_HOST 127.0.0.1:11534",
        "set --export OLLAMA_HOST 127.0.0.1:11534;",
        "setenv OLLAMA_HOST 127.0.0.1:11534",
        "declare -x OLLAMA_HOST=127.0.0.1:11534",
    ],
)
def test_a_shell_file_is_read_in_every_dialect(line: str) -> None:
    """sh, csh and fish."""
    assert assigned(f"# hello\n{line}\n") == {"OLLAMA_HOST": "127.0.0.1:11534"}


def test_a_shell_file_is_read_for_these_variables_only() -> None:
    """A comment sets nothing, and what else is set is not ours to look at."""
    assert assigned("# export OLLAMA_HOST=x\nexport TOKEN=x\nunset OLLAMA_HOST\necho OLLAMA_HOST\n") == {}


def test_the_files_of_a_home_are_found(tmp_path: Path) -> None:
    """Those that set something, by their path; a directory in the place of one is passed by."""
    (tmp_path / ".zshrc").write_text("export OLLAMA_HOST=127.0.0.1:11534\n")
    (tmp_path / ".bashrc").write_bytes(b"\xff\xfe export PATH=/x\n")
    (tmp_path / ".profile").mkdir()
    (tmp_path / ".config" / "environment.d").mkdir(parents=True)
    (tmp_path / ".config" / "environment.d" / "llm.conf").write_text("OLLAMA_HOST=studio.local\n")
    assert list(read_shell_files(tmp_path)) == [
        (str(tmp_path / ".zshrc"), {"OLLAMA_HOST": "127.0.0.1:11534"}),
        (str(tmp_path / ".config" / "environment.d" / "llm.conf"), {"OLLAMA_HOST": "studio.local"}),
    ]


def test_a_session_of_macos_is_asked(tmp_path: Path) -> None:
    """By launchctl; what is not looked at is not told."""
    with StandIns(tmp_path, "launchctl") as system:
        system.keep("launchd", {"OLLAMA_HOST": "127.0.0.1:11534", "TOKEN": "secret"})
        ((where, told),) = read_session(system.runner, None)
        assert (where, told) == (SESSION, {"OLLAMA_HOST": "127.0.0.1:11534"})
        assert "launchctl unsetenv" in leaks(told, where)[0].mend


def test_the_variables_of_windows_are_read(tmp_path: Path) -> None:
    """The person's and the machine's; the one that a takeover needs is not for a person to remove."""
    with StandIns(tmp_path) as system:
        registry = FileRegistry(tmp_path / "registry")
        own = {"OLLAMA_HOST": ["127.0.0.1:11534", REG_SZ], "HTTP_PROXY": ["http://proxy:1", REG_SZ]}
        registry.make(0x80000001, USER, own)
        registry.make(0x80000002, MACHINE_KEY, {"OLLAMA_HOST": ["studio", REG_SZ]})
        assert dict(read_session(system.runner, UserVariables(registry))) == {
            OWN: {"HTTP_PROXY": "http://proxy:1"},
            MACHINE: {"OLLAMA_HOST": "studio"},
        }


def test_other_systems_have_no_such_session(tmp_path: Path) -> None:
    """Nothing is asked there."""
    with StandIns(tmp_path) as system:
        assert list(read_session(system.runner, None)) == []
