"""Compiles the modules on the path of a request into the wheel (docs/development.md, decisions 231 and 232).

Hatchling calls CompilingHook. What is compiled stands in pyproject.toml, and PAIRPROXY_COMPILE says whether.
mypyc runs over a copy of the package, in a process of its own (this file as a program): it leaves its process
where it refuses something, and a checkout must not hold what it writes.
"""

import functools
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SETTING = "PAIRPROXY_COMPILE"
PACKAGE = "pairproxy"
COMPILERS = ["mypy>=2.4,<3", "setuptools>=78,<90"]
"""What compiles; mypyc comes with mypy. The same stands among the needs of the tests."""
OPTIMISATION = "2"  # decision 232 has the figures
LIMIT_S = 1800.0  # a minute or two on two idle cores
IMPORTING = """
import importlib, os, sys
sys.path.insert(0, os.getcwd())
for name in sys.argv[1:]:
    file = importlib.import_module(name).__file__
    if file.endswith(".py") or not file.startswith(os.getcwd()):
        sys.exit(f"error: {name} was imported from {file}")
"""
OUTPUT, OBJECTS = "compiled", "objects"
SLOWER = "pairproxy is built without its compiled modules, so that a request costs about twice as much"


class CannotCompile(Exception):
    """Its text says why, and what to do."""


class CompilingHook(BuildHookInterface[Any]):
    """Puts an extension beside the source of each compiled module; the source stays for tracebacks."""

    _directory: str | None = None

    def dependencies(self) -> list[str]:
        """mypyc and what it reads the types of: the same code comes out wherever it runs."""
        try:
            wanted = wish(os.environ)
            if wanted is False or (wanted is None and what_is_missing()):
                return []
        except (CannotCompile, OSError):  # initialize() tells it
            return []
        return [*COMPILERS, *self.metadata.core.dependencies]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, or say why not; an editable install runs what is edited, and is never compiled."""
        try:
            wanted = wish(os.environ)
            if version == "editable" or wanted is False:
                return
            extensions = self._compiled()
        except (CannotCompile, OSError) as error:
            self._leave_out(str(error))
            return
        build_data["force_include"].update(extensions)
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """The wheel has all by now."""
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)

    def _compiled(self) -> dict[str, str]:
        """File -> where it belongs in the wheel. Raises CannotCompile, OSError."""
        if missing := what_is_missing() or what_is_not_installed():
            raise CannotCompile(missing)
        modules = compiled_modules(Path(self.root), self.config)
        self._directory = tempfile.mkdtemp(prefix="pairproxy-compiling-")
        return compiled(Path(self.root), modules, Path(self._directory))

    def _leave_out(self, why: str) -> None:
        """Ends the build where the wish was to compile, or was none at all."""
        self.finalize("", {}, "")
        if os.environ.get(SETTING):
            self.app.abort(f"{SETTING}={os.environ[SETTING]}: {why} {SETTING}=0 builds without.")
        self.app.display_warning(f"{SLOWER}: {why} {SETTING}=1 makes this an error, {SETTING}=0 is silent.")


def wish(environment: Mapping[str, str]) -> bool | None:
    """Whether to compile; None: if it can be done. Raises CannotCompile for what is neither."""
    said = environment.get(SETTING, "")
    if said not in ("", "0", "1"):
        raise CannotCompile(
            "it is neither 1 (compile or fail) nor 0 (never), nor unset (compile where possible)."
        )
    return bool(int(said)) if said else None


def what_is_missing() -> str | None:
    """Why nothing can be compiled on this machine, with what to do; None: it can."""
    if sys.implementation.name != "cpython":
        return "mypyc compiles for CPython only."
    if os.name == "nt" and not os.environ.get(SETTING):
        return "it was never tried on Windows."
    command = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "") or ["cc"]
    if os.name != "nt" and (not shutil.which(command[0]) or _is_stand_in()):
        return f"there is no C compiler ({command[0]}): install one (Debian: `apt install gcc libc6-dev`)."
    if not (Path(sysconfig.get_path("include")) / "Python.h").is_file():
        return "Python's headers are missing: install them (Debian: `apt install python3-dev`)."
    return None


def _is_stand_in() -> bool:
    """On a Mac, cc may be a program that only offers to install one, in a window."""
    return (
        sys.platform == "darwin"
        and subprocess.run(["xcode-select", "-p"], check=False, capture_output=True).returncode != 0
    )


def what_is_not_installed() -> str | None:
    """The same of what dependencies() asks for, which nobody installs into a build without isolation."""
    absent = [name for name in ("mypyc", "setuptools") if importlib.util.find_spec(name) is None]
    return (
        f"{' and '.join(absent)} missing: install {', '.join(COMPILERS)} beside hatchling."
        if absent
        else None
    )


def compiled_modules(root: Path, table: Mapping[str, Any]) -> list[str]:
    """The modules to compile, by their paths below root. Raises CannotCompile: a pattern names nothing."""
    chosen: dict[str, None] = {}
    for pattern in table["compiled"]:
        chosen.update(dict.fromkeys(_matches(root, pattern)))
    excepted = {module for pattern in table["interpreted"] for module in _matches(root, pattern)}
    return [module for module in chosen if module not in excepted and not module.endswith("__init__.py")]


def _matches(root: Path, pattern: str) -> list[str]:
    found = sorted(path.relative_to(root).as_posix() for path in root.glob(pattern) if path.is_file())
    if not found:
        raise CannotCompile(f"{pattern} of pyproject.toml names no module.")
    return found


def compiled(root: Path, modules: Sequence[str], directory: Path) -> dict[str, str]:
    """Compile a copy of the package in a directory: extension -> where it belongs. Raises CannotCompile."""
    unwanted = shutil.ignore_patterns("__pycache__", "*.so", "*.pyd")
    shutil.copytree(root / PACKAGE, directory / PACKAGE, ignore=unwanted)
    (directory / "mypy.ini").write_text("[mypy]\nignore_missing_imports = True\n", encoding="utf-8")
    _run([sys.executable, str(Path(__file__).resolve()), *modules], directory, "compiling failed")
    output = directory / OUTPUT
    shutil.copytree(output, directory, dirs_exist_ok=True)
    names = [module.removesuffix(".py").replace("/", ".") for module in modules]
    _run([sys.executable, "-c", IMPORTING, *names], directory, "what was compiled cannot be imported")
    return {str(path): path.relative_to(output).as_posix() for path in output.rglob("*") if path.is_file()}


def _run(command: list[str], directory: Path, failed: str) -> None:
    """One program in the copy. Raises CannotCompile with the words given and the cause."""
    with (directory / "log").open("w+", encoding="utf-8", errors="replace") as log:
        try:
            status = subprocess.run(
                command,
                check=False,
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                timeout=LIMIT_S,
            ).returncode
        except subprocess.TimeoutExpired:
            raise CannotCompile(f"{failed}: it took more than {LIMIT_S:.0f} s.") from None
        log.seek(0)
        told = log.read()
    if status:
        raise CannotCompile(f"{failed}: {_cause(told)}.")


def _cause(told: str) -> str:
    """The first line that says error, else the last one."""
    lines = [line.strip() for line in told.splitlines() if line.strip()]
    return next(
        (line for line in lines if "error:" in line), lines[-1] if lines else "nothing was said"
    ).rstrip(".")


def main(modules: list[str]) -> None:
    """In the copy: compile, with the extensions below OUTPUT. Raises SystemExit where that fails."""
    from concurrent.futures import ThreadPoolExecutor

    from mypyc.build import mypycify
    from setuptools import Extension, setup
    from setuptools.command.build_ext import build_ext

    class Building(build_ext):  # type: ignore[misc]  # it has no types
        """Takes all cores: one extension is of many files, which setuptools compiles in turn."""

        def build_extension(self, ext: Extension) -> None:
            compiler = self.compiler
            for source in ext.sources:
                (Path(self.build_temp) / source).parent.mkdir(parents=True, exist_ok=True)
            options: dict[str, Any] = {"output_dir": self.build_temp, "include_dirs": ext.include_dirs}
            options["extra_postargs"] = list(ext.extra_compile_args)
            if compiler.compiler_type == "unix":
                options["extra_postargs"].append("-Wno-error")  # other compilers warn of other things
            compile_one = functools.partial(compiler.compile, **options)
            with ThreadPoolExecutor(_cores()) as pool:
                objects = list(pool.map(lambda source: compile_one([source]), ext.sources))
            ext.extra_objects = [name for each in objects for name in each]
            ext.sources = []
            super().build_extension(ext)

    extensions = mypycify(
        ["--config-file", "mypy.ini", *modules],
        opt_level=OPTIMISATION, debug_level="0", multi_file=True, group_name=PACKAGE,
    )  # fmt: skip
    arguments = ["build_ext", "--build-lib", OUTPUT, "--build-temp", OBJECTS]
    setup(
        name=PACKAGE,
        packages=[],
        ext_modules=extensions,
        cmdclass={"build_ext": Building},
        script_args=arguments,
    )


def _cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


if __name__ == "__main__":
    main(sys.argv[1:])
