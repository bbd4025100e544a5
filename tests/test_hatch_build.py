import ast
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
# Who a request passes, from its first byte to its record; what these import is their own business.
ON_THE_PATH = (
    "core/*.py",
    "core/dialects/*.py",
    "proxy/*.py",
    "upstreams/*.py",
    "dispatcher.py",
    "attempt.py",
    "ended.py",
    "totals.py",
    "request_log.py",
)
ENDS_AT_ONCE = re.compile(
    r"asyncio\.timeout(_at)?\("
    r"|attempt$"  # attempt.Attempt stamps its end
    r"|self\._(changing|one_report|one_status)$"  # locks
    r"|contextlib\.aclosing\(self\._read\("  # of a file, whose generator waits for nothing when it is closed
)
"""Blocks whose end waits for nobody."""
A_PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "pairproxy"
version = "0.1.0"
requires-python = ">=3.11"
[tool.hatch.build.targets.wheel.hooks.custom]
compiled = ["pairproxy/*.py"]
[tool.hatch.build.targets.wheel.hooks.custom.interpreted]
"pairproxy/left.py" = "shows that this is obeyed"
"""


def hook() -> ModuleType:
    """hatch_build.py, which is no module of a package."""
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


pytest.importorskip("hatchling")
HOOK = hook()


@pytest.fixture
def table() -> dict[str, Any]:
    """What pyproject.toml says is compiled."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found: dict[str, Any] = project["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]
    return found


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A package of two modules, one of which is compiled, with the hook."""
    made = tmp_path / "project"
    (made / "pairproxy").mkdir(parents=True)
    shutil.copy(ROOT / "hatch_build.py", made)
    (made / "pyproject.toml").write_text(A_PROJECT)
    (made / "pairproxy" / "__init__.py").write_text("")
    (made / "pairproxy" / "left.py").write_text("def one() -> int:\n    return 1\n")
    (made / "pairproxy" / "hot.py").write_text("def add(a: int, b: int) -> int:\n    return a + b\n")
    return made


def build(project: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A wheel of it in dist/, built with what is installed here."""
    surroundings = {name: value for name, value in os.environ.items() if name != "CC"} | environment
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", "dist"]
    return subprocess.run(
        command, cwd=project, env=surroundings, capture_output=True, text=True, timeout=250, check=False
    )


def in_wheel(project: Path) -> tuple[str, list[str]]:
    """Its name, and the names of its modules."""
    (wheel,) = (project / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return wheel.name, [name for name in archive.namelist() if ".dist-info" not in name]


def needs_a_compiler() -> None:
    """Skip where nothing can be compiled."""
    if why := HOOK.what_is_missing() or HOOK.what_is_not_installed():
        pytest.skip(f"nothing can be compiled here: {why}")


def test_what_a_request_passes_is_compiled_or_excepted_by_name(table: dict[str, Any]) -> None:
    """A new module on the path of a request is put into the table, or among the exceptions with a reason."""
    chosen = set(HOOK.compiled_modules(ROOT, table))
    excepted = {module for pattern in table["interpreted"] for module in HOOK._matches(ROOT, pattern)}
    passed = {
        path.relative_to(ROOT).as_posix()
        for pattern in ON_THE_PATH
        for path in (ROOT / "pairproxy").glob(pattern)
        if path.name != "__init__.py"
    }
    assert passed - chosen - excepted == set()


def test_no_compiled_module_waits_while_it_handles_an_error(table: dict[str, Any]) -> None:
    """Meanwhile that error would be the context of all that others raise: a chain without end."""
    waits = (ast.Await, ast.AsyncFor, ast.AsyncWith)
    found = []
    for module in HOOK.compiled_modules(ROOT, table):
        for node in ast.walk(ast.parse((ROOT / module).read_text(encoding="utf-8"))):
            handles = [node] if isinstance(node, ast.ExceptHandler) else getattr(node, "finalbody", [])
            inside = (one for part in handles for one in ast.walk(part))
            found += [f"{module}:{one.lineno}" for one in inside if isinstance(one, waits)]
    assert found == []


def test_no_compiled_module_leaves_a_block_that_waits_for_others(table: dict[str, Any]) -> None:
    """Where a block ends with an error, its own end is waited for while that error is handled."""
    found = []
    for module in HOOK.compiled_modules(ROOT, table):
        for node in ast.walk(ast.parse((ROOT / module).read_text(encoding="utf-8"))):
            if isinstance(node, ast.AsyncWith):
                blocks = [ast.unparse(item.context_expr) for item in node.items]
                found += [f"{module}:{node.lineno}: {one}" for one in blocks if not ENDS_AT_ONCE.match(one)]
    assert found == []


def test_every_exception_has_its_reason_and_an_effect(table: dict[str, Any]) -> None:
    """A sentence each, and none for what would not be compiled anyway."""
    assert all(len(reason) > 10 for reason in table["interpreted"].values())
    everything = set(HOOK.compiled_modules(ROOT, {**table, "interpreted": {}}))
    for pattern in table["interpreted"]:
        assert set(HOOK._matches(ROOT, pattern)) & everything, pattern


def test_a_pattern_that_names_nothing_is_told(table: dict[str, Any]) -> None:
    """A module that moved must not be left out in silence."""
    with pytest.raises(HOOK.CannotCompile, match=r"gone\.py of pyproject\.toml names no module"):
        HOOK.compiled_modules(ROOT, {**table, "compiled": ["pairproxy/gone.py"]})


@pytest.mark.parametrize(("said", "wanted"), [("", None), ("0", False), ("1", True)])
def test_the_setting_has_three_values(said: str, wanted: bool | None) -> None:
    """Unset and empty are the same."""
    assert HOOK.wish({HOOK.SETTING: said} if said else {}) is wanted


def test_what_compiles_is_what_the_tests_compile_with() -> None:
    """The needs that the hook tells stand among those of the extra, so that the lock has them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert set(HOOK.COMPILERS) <= set(project["project"]["optional-dependencies"]["build"])


def test_a_setting_that_is_none_of_them_is_told(project: Path) -> None:
    """In every case as a failure: who says something wants something."""
    done = build(project, PAIRPROXY_COMPILE="maybe")
    assert done.returncode == 1
    assert "PAIRPROXY_COMPILE=maybe: it is neither 1" in done.stderr


def test_never_is_never(project: Path) -> None:
    """A wheel for every system, and no word about it."""
    done = build(project, PAIRPROXY_COMPILE="0")
    assert (done.returncode, "without" in done.stderr) == (0, False)
    name, modules = in_wheel(project)
    assert name == "pairproxy-0.1.0-py3-none-any.whl"
    assert all(module.endswith(".py") for module in modules)


@pytest.mark.parametrize("said", ["", "1"])
def test_no_compiler_is_told_with_what_to_install(project: Path, said: str) -> None:
    """A failure where it must compile; else a wheel without, and one sentence."""
    done = build(project, CC="no-such-compiler", PAIRPROXY_COMPILE=said)
    assert "there is no C compiler (no-such-compiler): install one" in done.stderr
    assert done.returncode == (1 if said else 0)
    if not said:
        assert HOOK.SLOWER in done.stderr
        assert in_wheel(project)[0].endswith("py3-none-any.whl")


def test_what_looks_for_a_compiler_and_fails_finds_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever installs gets the wheel that can be had: a Mac may have no xcode-select, CC may be blank."""
    building = HOOK.CompilingHook(str(ROOT), {}, None, None, "", "wheel")

    def not_there() -> bool:
        raise FileNotFoundError("xcode-select")

    monkeypatch.delenv(HOOK.SETTING, raising=False)
    monkeypatch.setenv("CC", " ")
    assert HOOK.what_is_missing() is None or "no C compiler" in HOOK.what_is_missing()
    monkeypatch.setattr(HOOK, "_is_stand_in", not_there)
    assert building.dependencies() == []


@pytest.mark.slow
@pytest.mark.parametrize("said", ["", "1"])
def test_a_compiler_that_fails_is_told(project: Path, said: str) -> None:
    """The same of one that is there and does nothing."""
    needs_a_compiler()
    done = build(project, CC="/bin/false", PAIRPROXY_COMPILE=said)
    assert "compiling failed: error: Command '['/bin/false'" in done.stderr
    assert done.returncode == (1 if said else 0)
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_what_mypyc_refuses_is_told_with_its_place(project: Path) -> None:
    """Its own first line, and not its traceback."""
    needs_a_compiler()
    (project / "pairproxy" / "hot.py").write_text("def add(a: int) -> str:\n    return a\n")
    done = build(project, PAIRPROXY_COMPILE="1")
    assert done.returncode == 1
    assert "compiling failed: pairproxy/hot.py:2: error: Incompatible return value type" in done.stderr


@pytest.mark.slow
def test_what_cannot_be_imported_is_no_wheel(project: Path) -> None:
    """Some of what mypyc cannot do shows only there."""
    needs_a_compiler()
    (project / "pairproxy" / "hot.py").write_text("raise RuntimeError('not here')\n")
    done = build(project, PAIRPROXY_COMPILE="1", PYTHONSAFEPATH="1")
    assert done.returncode == 1
    assert "what was compiled cannot be imported: RuntimeError: not here" in done.stderr


def test_nowhere_to_write_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a failure where it must compile, and else as one sentence, like every other reason."""

    def full(prefix: str) -> str:
        raise OSError(28, "No space left on device")

    needs_a_compiler()
    monkeypatch.setattr(HOOK, "compiled_modules", lambda root, table: ["pairproxy/hot.py"])
    monkeypatch.setattr(HOOK.tempfile, "mkdtemp", full)
    monkeypatch.delenv(HOOK.SETTING, raising=False)
    building = HOOK.CompilingHook(str(ROOT), {}, None, None, "", "wheel")
    building.initialize("standard", {})
    assert "No space left on device" in capsys.readouterr().err
    monkeypatch.setenv(HOOK.SETTING, "1")
    with pytest.raises(SystemExit):
        building.initialize("standard", {})


@pytest.mark.slow
def test_an_extension_stands_beside_its_source(project: Path, tmp_path: Path) -> None:
    """In a wheel for this Python and machine; what is excepted is not compiled, and the tree is as it was."""
    needs_a_compiler()
    before = sorted(project.rglob("*.py"))
    done = build(project, PAIRPROXY_COMPILE="1")
    assert done.returncode == 0, done.stderr
    name, modules = in_wheel(project)
    assert not name.endswith("none-any.whl")
    assert {"pairproxy/hot.py", "pairproxy/left.py"} <= set(modules)
    extensions = [module for module in modules if not module.endswith(".py")]
    assert sorted(module.partition(".")[0] for module in extensions) == ["pairproxy/hot", "pairproxy__mypyc"]
    assert [path for path in sorted(project.rglob("*")) if path.suffix in (".py", ".so", ".c")] == before
    with zipfile.ZipFile(project / "dist" / name) as archive:
        archive.extractall(tmp_path / "site")
    asked = "import pairproxy.hot as hot; print(hot.__file__.endswith('.py'), hot.add(2, 3))"
    told = subprocess.run(
        [sys.executable, "-c", asked],
        cwd=tmp_path / "site", env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert told.stdout == "False 5\n"
