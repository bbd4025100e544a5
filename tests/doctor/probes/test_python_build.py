import sys
import sysconfig

import pytest

from pairproxy.doctor.probes.python_build import PythonBuild, python_build

PYENV = "'--prefix=/opt/pyenv/versions/3.11.7' '--enable-shared' 'LDFLAGS=-L/lib -Wl,-rpath,/lib'"
OF_UV = "'--prefix=/install' '--with-ensurepip=no' '--enable-optimizations' '--with-lto' 'CC=clang'"
DEBIAN = "'--enable-shared' '--prefix=/usr' '--with-dbmliborder=bdb:gdbm' 'CFLAGS=-g   -Wformat '"


@pytest.mark.parametrize(
    ("arguments", "prefix", "build"),
    [
        (PYENV, "/opt/pyenv/versions/3.11.7", "not optimised"),
        (OF_UV, "/opt/uv/cpython-3.13", "optimised"),
        ("'--prefix=/usr' '--enable-optimizations'", "/usr", "optimised"),
        (DEBIAN, "/usr", "of the system"),
        ("'--prefix=/opt' '--with-lto=full'", "/opt", "unknown"),
        ("'--prefix=/opt' 'CFLAGS=-O3 -fprofile-use'", "/opt", "unknown"),
        (None, "C:\\Python313", "unknown"),
        ("", "/opt", "unknown"),
    ],
)
def test_how_it_was_configured_is_believed(arguments: str | None, prefix: str, build: PythonBuild) -> None:
    """What the compiler could have done says nothing: a pyenv build without a profile has it too."""
    told = {"CONFIG_ARGS": arguments, "PGO_PROF_USE_FLAG": "-fprofile-use", "PYTHONFRAMEWORK": ""}
    assert python_build(told, prefix, "cpython") == build


def test_where_nothing_is_known_nothing_is_said() -> None:
    """A framework of macOS may be built in a way of its own; another implementation has no such builds."""
    framework = {"CONFIG_ARGS": PYENV, "PYTHONFRAMEWORK": "Python"}
    assert python_build(framework, "/Library", "cpython") == "unknown"
    assert python_build({"CONFIG_ARGS": OF_UV}, "/opt", "pypy") == "unknown"


@pytest.mark.skipif(sys.platform == "win32", reason="nothing is recorded there")
def test_this_python_is_told_by_its_own_record() -> None:
    """Whatever it is."""
    recorded = str(sysconfig.get_config_var("CONFIG_ARGS"))
    assert (python_build() == "optimised") == ("--enable-optimizations" in recorded)
