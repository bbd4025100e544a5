"""What the documentation says is checked against the code."""

import os
import re
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import msgspec
import pytest
import typer
import typer.core
import typer.main
from typer.testing import CliRunner

import pairproxy
import pairproxy.cli.commands
import pairproxy.peers
import pairproxy.proxy
import pairproxy.security
from pairproxy.config import EngineSettings, Settings
from pairproxy.loading import load
from pairproxy.reloading import LIVE

ROOT = Path(__file__).parent.parent
# Registry hosts and paths of one machine, written so that this line does not find itself.
OUTSIDE = re.compile(
    r"pypi\.org|pythonhosted\.org|registry\.npmjs|deb\.debian\.org|/work/(?:main|steering|shared)|/fa[r]m/"
    r"|/tmp/bash_[j]obs|/tmp/ex[p]/|/root/\.|/home/[a-z]+/|/Users/[A-Za-z]+/"
)
HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def project_files(*patterns: str) -> list[Path]:
    """The files that are in the repository or about to be; what git ignores is not ours."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30)
    if done.returncode:
        pytest.skip("no git checkout here, so the project's files cannot be told from others")
    return [path for name in done.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def read(path: Path) -> str:
    """A file as text; bytes that are no text are replaced."""
    return path.read_text(encoding="utf-8", errors="replace")


def help_of(*command: str) -> str:
    """What a command's --help prints, without colour or wrapping."""
    surroundings = {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "200"}
    arguments = [*command, "--help"]
    done = CliRunner().invoke(pairproxy.cli.commands.app, arguments, prog_name="pairproxy", env=surroundings)
    assert done.exit_code == 0, done.output
    return done.output


def commands() -> list[str]:
    """The commands that `pairproxy --help` lists."""
    listed = help_of().partition("Commands")[2]
    return re.findall(r"^[ │|]+([a-z][a-z-]+)(?:  |\s*[│|]?$)", listed, re.MULTILINE)


def anchors(page: str) -> set[str]:
    """The anchors that a page's headings get where it is shown."""
    slugs = (re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in HEADING.findall(page))
    return set(slugs)


def _every_command(group: typer.core.TyperGroup, *above: str) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        yield (*above, name)
        if isinstance(command, typer.core.TyperGroup):
            yield from _every_command(command, *above, name)


def test_every_help_fills_its_lines() -> None:
    """At 80 columns no line of its text ends where the next word would have fitted."""
    root = typer.main.get_command(pairproxy.cli.commands.app)
    assert isinstance(root, typer.core.TyperGroup)
    listed = list(_every_command(root))
    assert ("keys", "add") in listed, "commands of groups are missing"
    for command in listed:
        surroundings = {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "80"}
        told = CliRunner().invoke(pairproxy.cli.commands.app, [*command, "--help"], env=surroundings).output
        lines = told.partition("\u256d")[0].splitlines()
        for line, after in pairwise(lines):
            word = after.split()[0] if after.split() else ""
            is_early = bool(line.strip() and word) and len(line.rstrip()) + 1 + len(word) <= 79
            assert not is_early, f"{' '.join(command)}: {line.strip()!r} ends before {word!r}"


def test_every_command_is_documented() -> None:
    """Each command of the help stands as `pairproxy COMMAND` in the README or in docs/."""
    pages = "\n".join(read(path) for path in project_files("README.md", "docs/*.md"))
    listed = commands()
    assert len(listed) >= 3, f"the commands could not be read off the help: {listed}"
    assert not [name for name in listed if not re.search(rf"pairproxy {name}\b", pages)]


def test_every_command_has_an_example_in_its_help() -> None:
    """Somebody who reads a command's help sees a line to type."""
    assert not [
        name for name in commands() if f"pairproxy {name}" not in help_of(name).partition("Usage")[2][40:]
    ]


def test_the_settings_page_is_what_the_code_says() -> None:
    """docs/configuration.md is what scripts/docs writes from config.py now."""
    line = [sys.executable, "scripts/docs", "--print"]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", timeout=30)
    assert done.returncode == 0, done.stderr
    assert read(ROOT / "docs" / "configuration.md") == done.stdout, "run scripts/docs"


def keys_of(section: type[msgspec.Struct], prefix: str) -> list[str]:
    """Every key that a file of settings may hold, asked of the types themselves."""
    found = []
    for field in msgspec.structs.fields(section):
        key = f"{prefix}{field.encode_name}"
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            found += keys_of(field.type, f"{key}.")
        elif field.type == tuple[EngineSettings, ...]:
            found += keys_of(EngineSettings, f"{key}.")
        else:
            found.append(key)
    return found


def test_every_setting_is_on_the_settings_page() -> None:
    """No key is left out, and none is there that does not exist."""
    page = read(ROOT / "docs" / "configuration.md")
    assert re.findall(r"^\| `([a-z_.]+)` \|", page, re.MULTILINE) == keys_of(Settings, "")


TOML = re.compile(r"^( *)```toml\n(.*?)^ *```", re.MULTILINE | re.DOTALL)


def test_every_file_of_settings_on_a_page_is_good(tmp_path: Path) -> None:
    """Whoever copies one gets no error for it."""
    pages = project_files("README.md", "docs/*.md")
    found = [(page.name, textwrap.dedent(text)) for page in pages for _, text in TOML.findall(read(page))]
    assert found
    for page, text in found:
        file = tmp_path / f"{page}.toml"
        file.write_text(text)
        load(file, {})


def test_what_a_reload_puts_in_force_is_told() -> None:
    """Each key of the code stands in the paragraph about it, those of limits and routing by their section."""
    text = read(ROOT / "docs" / "configuration.md").partition("`pairproxy reload`")[2].partition("##")[0]
    keys = {key for key in LIVE if not key.startswith("routing.")}
    told = {f"`{key}`" if not key.startswith("limits.") else f"`{key.partition('.')[2]}`" for key in keys}
    assert told == set(re.findall("`[a-z_.]+`", text)) - {"`routing`", "`limits`"}


def test_every_page_is_in_the_tree_of_the_architecture_and_in_the_readme() -> None:
    """A page that nothing names is found by nobody."""
    pages = [path.stem for path in project_files("docs/*.md")]
    tree = read(ROOT / "docs" / "architecture.md").partition("    docs/ ")[2].partition("\n\n")[0]
    assert re.findall(r"[a-z-]+", tree) == sorted(pages)
    assert not [page for page in pages if f"](docs/{page}.md" not in read(ROOT / "README.md")]


def test_every_relative_link_leads_somewhere() -> None:
    """A link to a file of the project, or to a heading in one, resolves."""
    broken = []
    for page in project_files("*.md"):
        for found in LINK.findall(FENCED.sub("", read(page))):
            target = found[0] or found[1]
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            file = (page.parent / name).resolve() if name else page
            if not file.exists() or (anchor and anchor not in anchors(read(file))):
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert not broken


def test_the_changelog_starts_with_this_version() -> None:
    """The newest entry of the changelog is the version of the package."""
    newest = re.search(r"^## \[([^\]]+)\]", read(ROOT / "CHANGELOG.md"), re.MULTILINE)
    assert newest is not None
    assert newest[1] == pairproxy.__version__


def test_every_module_is_in_the_tree_of_the_architecture() -> None:
    """Each package and each top-level module is named in docs/architecture.md."""
    page = read(ROOT / "docs" / "architecture.md")
    package = ROOT / "pairproxy"
    packages = [f"{path.parent.name}/" for path in package.rglob("__init__.py") if path.parent != package]
    modules = [path.name for path in package.glob("*.py")] + [
        path.name for path in (package / "core").glob("*.py")
    ]
    assert not [name for name in [*packages, *modules] if name not in page]


@pytest.mark.parametrize("package", [pairproxy.peers, pairproxy.proxy, pairproxy.security])
def test_the_map_of_a_large_package_names_every_module(package: ModuleType) -> None:
    """Who looks for something begins there; each module stands at the beginning of a line of it."""
    map_of_it = re.findall(r"^ +(?:[|`]-? *)*(\w+)", package.__doc__ or "", re.MULTILINE)
    modules = {path.stem for path in Path(package.__path__[0]).glob("[!_]*.py")}
    assert not modules - set(map_of_it)


def test_the_law_is_told_as_it_is_checked() -> None:
    """The layers written in docs/architecture.md are those of the import contracts, in their order."""
    page = read(ROOT / "docs" / "architecture.md")
    everything, core, _ = tomllib.loads(read(ROOT / "pyproject.toml"))["tool"]["importlinter"]["contracts"]
    for contract, start in ((everything, "__main__ >"), (core, "inside core:")):
        told = re.search(rf"^    {start}.*\n(?:     +>.*\n)*", page, re.MULTILINE)
        assert told is not None
        layers = re.sub(r"inside core:|\s", "", told[0]).split(">")
        assert layers == [re.sub(r"[() ]", "", layer) for layer in contract["layers"]]


def test_nothing_names_a_registry_or_a_machine() -> None:
    """No tracked file names a package registry's host or a path of somebody's machine."""
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in project_files()
        for number, line in enumerate(read(path).splitlines(), 1)
        if OUTSIDE.search(line)
    ]
    assert not found


def test_scripts_are_executable_and_described() -> None:
    """Every script can be started, says in its head what it does, and is named in docs/development.md."""
    page = read(ROOT / "docs" / "development.md")
    for script in project_files("scripts/*", ".ci/run"):
        second = read(script).splitlines()[1]
        assert os.access(script, os.X_OK), script
        assert second.startswith(("# ", '"""')), script
        assert script.relative_to(ROOT).as_posix() in page, script


NAMED_TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


@pytest.mark.parametrize("page", ["security.md", "faults.md"])
def test_every_test_that_a_page_names_exists(page: str) -> None:
    """What a threat or a fault is shown by can be run."""
    path = ROOT / "docs" / page
    named = NAMED_TEST.findall(read(path)) if path.exists() else []
    missing = [
        f"{file}::{name}"
        for file, name in named
        if not (ROOT / file).exists()
        or (name and not re.search(rf"^(?:async )?def {name}\(", read(ROOT / file), re.MULTILINE))
    ]
    assert not missing


def test_every_fault_names_a_test() -> None:
    """Each of F1-F45 is a row of docs/faults.md, in order, and is shown by one test at least."""
    rows = [line for line in read(ROOT / "docs" / "faults.md").splitlines() if line.startswith("| F")]
    assert [row.split(" ")[1] for row in rows] == [f"F{number}" for number in range(1, 46)]
    assert not [row for row in rows if not NAMED_TEST.search(row)]


def test_every_threat_names_a_test() -> None:
    """Each row of the table of docs/security.md is shown by one at least, and so is each row of group G."""
    page = read(ROOT / "docs" / "security.md")
    _, _, table = page.partition("## What is protected against whom")
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= 15
    assert not [row for row in rows if not NAMED_TEST.search(row)]
    tests = "".join(read(path) for path in project_files("tests/**/*.py"))
    for number in range(1, 18):
        assert re.search(rf"[gG]{number:02}\b|_g{number:02}_", tests), f"G{number:02} has no test"
