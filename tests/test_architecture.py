"""The rules of docs/architecture.md that a program can check; an exception needs its reason in a table."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "pairproxy"
MODULES = sorted(PACKAGE.rglob("*.py"))
SOURCES = [*MODULES, *sorted((ROOT / "tests").rglob("*.py"))]

FILE_LINES = 300  # more is usually two ideas in one file
FUNCTION_LINES = 40  # more does not fit a screen

WITHOUT_MIRROR: dict[str, str] = {
    "pairproxy/interfaces.py": "only Protocols: mypy holds those who implement them to it",
}
LONG_FILES: dict[str, str] = {
    # "pairproxy/x/y.py": "why it is one idea"
}
LONG_FUNCTIONS: dict[str, str] = {
    # "pairproxy/x/y.py:function": "why it is read best in one piece"
}


def name_of(path: Path) -> str:
    """The path from the project's root, with slashes."""
    return path.relative_to(ROOT).as_posix()


def mirror_of(module: Path) -> Path:
    """Where the tests of a module live."""
    return ROOT / "tests" / module.relative_to(PACKAGE).with_name(f"test_{module.name}")


def functions_of(path: Path) -> list[tuple[str, int]]:
    """Each function or method of a file with its length in lines."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [
        (node.name, (node.end_lineno or node.lineno) - node.lineno + 1)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def test_imports_point_down(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Every contract of pyproject.toml is kept, and every module has its place in them."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(
        "logging.config.dictConfig", lambda _: None
    )  # it would silence loggers for later tests
    status = lint_imports(no_cache=True)
    assert status == 0, capsys.readouterr().out


@pytest.mark.parametrize("module", [path for path in MODULES if not path.name.startswith("__")], ids=name_of)
def test_every_module_has_its_mirror(module: Path) -> None:
    """The tests of a module are found at the same place under tests/."""
    if name_of(module) in WITHOUT_MIRROR:
        return
    assert mirror_of(module).is_file(), f"{name_of(mirror_of(module))} is missing"


def test_files_are_short() -> None:
    """A file holds one idea in at most 300 lines."""
    lengths = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    long = {name: lines for name, lines in lengths.items() if lines > FILE_LINES and name not in LONG_FILES}
    assert not long, f"over {FILE_LINES} lines: {long}"


def test_functions_are_short() -> None:
    """A function fits a screen of 40 lines."""
    long = {
        f"{name_of(path)}:{function}": lines
        for path in SOURCES
        for function, lines in functions_of(path)
        if lines > FUNCTION_LINES and f"{name_of(path)}:{function}" not in LONG_FUNCTIONS
    }
    assert not long, f"over {FUNCTION_LINES} lines: {long}"


def test_the_exceptions_are_needed() -> None:
    """No exception outlives its cause."""
    lengths = {f"{name_of(path)}:{name}": lines for path in SOURCES for name, lines in functions_of(path)}
    assert not [
        name for name in WITHOUT_MIRROR if not (ROOT / name).is_file() or mirror_of(ROOT / name).is_file()
    ]
    assert not [name for name in LONG_FILES if len((ROOT / name).read_text().splitlines()) <= FILE_LINES]
    assert not [name for name in LONG_FUNCTIONS if lengths.get(name, 0) <= FUNCTION_LINES]


def test_core_draws_no_global_randomness() -> None:
    """The pure core uses randomness only from a random.Random that it was given."""
    found = [
        f"{name_of(path)}:{node.lineno}"
        for path in MODULES
        if path.is_relative_to(PACKAGE / "core")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.Import) and any(name.name == "random" for name in node.names))
        or (
            isinstance(node, ast.ImportFrom)
            and node.module == "random"
            and {n.name for n in node.names} != {"Random"}
        )
    ]
    assert not found


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("cli", "typer pydantic rich asyncio msgspec"),
        (
            "cli.commands",
            "aiohttp zeroconf prometheus_client opentelemetry sqlite3 pairproxy.daemon pairproxy.web",
        ),
        ("cli.status", "aiohttp prometheus_client opentelemetry sqlite3 pairproxy.web pairproxy.drawing"),
        (
            "daemon",
            (
                "cryptography opentelemetry plistlib prometheus_client pydantic rich typer zeroconf zipfile"
                " pairproxy.api.openapi pairproxy.core.advice.tree pairproxy.core.simulator"
                " pairproxy.engines.embedded pairproxy.engines.paced pairproxy.takeover.plan"
            ),
        ),
    ],
)
def test_nothing_is_imported_that_is_not_needed_at_once(module: str, heavy: str) -> None:
    """The command line, `status` and the daemon start fast: what few ask for is imported when they do."""
    program = f"import sys, pairproxy.{module}; print(*{set(heavy.split())} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=30
    )
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr
