import subprocess
import sys
from pathlib import Path

import pytest
import typer

from pairproxy.cli.commands import app
from pairproxy.cli.plain_up import COMPLETING, ENGINES, LEVELS, VALUED, UpOptions, options_of
from pairproxy.cli.up import EngineChoice, LogLevelName


def test_plain_options_are_read_in_both_forms() -> None:
    """A value may follow its name or stand behind an equals sign."""
    given = [
        "up",
        "--home",
        "/h",
        "--log-level=debug",
        "--engine",
        "paced",
        "--listen",
        "127.0.0.1:1",
        "--stop-on-eof",
    ]
    assert options_of(given, {}) == UpOptions(
        home=Path("/h"), log_level="debug", engine="paced", listen="127.0.0.1:1", stop_on_eof=True
    )
    assert options_of(["up", "--config=c", "--log-file", "l"], {}) == UpOptions(
        config=Path("c"), log_file=Path("l")
    )
    assert options_of(["up"], {}) == UpOptions()


def test_the_environment_says_the_home_that_no_option_does() -> None:
    """As for every command; an empty one says nothing."""
    assert options_of(["up"], {"PAIRPROXY_HOME": "/e"}) == UpOptions(home=Path("/e"))
    assert options_of(["up", "--home", "/h"], {"PAIRPROXY_HOME": "/e"}) == UpOptions(home=Path("/h"))
    assert options_of(["up"], {"PAIRPROXY_HOME": ""}) == UpOptions()


@pytest.mark.parametrize(
    "line",
    [
        "",
        "status",
        "--version",
        "up --help",
        "up --takeover",
        "up --takeover --yes",
        "up -y",
        "up more",
        "up --home",
        "up --home=",
        "up --home --stop-on-eof",
        "up --home /a --home /b",
        "up --stop-on-eof --stop-on-eof",
        "up --stop-on-eof=1",
        "up --log_level debug",
        "up --log-level DEBUG",
        "up --engine ollama",
        "up --listen 127.0.0.1:1",
        "up --hom /a",
        "up -- --home /a",
    ],
)
def test_all_else_is_for_typer_to_judge(line: str) -> None:
    """Other commands, help, takeovers and every mistake."""
    assert options_of(line.split(), {}) is None


def test_a_shell_that_completes_is_answered_by_typer() -> None:
    """Whatever the arguments are."""
    assert options_of(["up"], {COMPLETING: "complete_bash"}) is None


def test_both_readings_know_the_same_options() -> None:
    """What is added to `up` is added here, or is left to typer on purpose."""
    root = typer.main.get_command(app)
    assert isinstance(root, typer.core.TyperGroup)
    names = {str(one.name) for one in root.commands["up"].params}
    assert names - {"help"} == VALUED | {"stop_on_eof", "takeover", "yes"}
    assert names - {"help"} == set(UpOptions.__dataclass_fields__)
    assert tuple(LogLevelName) == LEVELS
    assert tuple(EngineChoice) == ENGINES


def test_a_daemon_that_is_started_plainly_never_meets_typer(tmp_path: Path) -> None:
    """Nor rich or pydantic: they would stay in its memory for its whole life."""
    (tmp_path / "config.toml").write_text("[nonsense]\n")
    program = "import sys; from pairproxy.cli import main\ntry: main()\nexcept SystemExit: pass\n"
    program += "print({'typer', 'rich', 'pydantic'} & set(sys.modules))"
    arguments = [sys.executable, "-c", program, "up", "--home", str(tmp_path)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=30)
    assert (done.stdout.strip(), "nonsense" in done.stderr) == ("set()", True)
