import ctypes
import gc
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from pairproxy.cli.plain_up import UpOptions
from pairproxy.cli.serving import (
    COLLECT_AT,
    _check_certificates,
    _freeze,
    _loop_factory,
    _share_one_heap,
    serve,
)
from pairproxy.core.errors import ConfigError


def test_what_a_person_has_to_mend_is_raised_before_anything_starts(tmp_path: Path) -> None:
    """With the file's name; how `up` starts and ends is told in test_up."""
    (tmp_path / "config.toml").write_text("[log]\nlevel = 3\n")
    with pytest.raises(ConfigError, match=r"config\.toml"):
        serve(UpOptions(home=tmp_path))
    assert [one.name for one in tmp_path.iterdir()] == ["config.toml"]


def test_what_a_daemon_is_made_of_is_no_garbage_to_look_for() -> None:
    """It is left out of every later look, of which there are fewer."""
    usual = gc.get_threshold()
    try:
        _freeze()
        assert gc.get_freeze_count() > 1000
        assert gc.get_threshold() == COLLECT_AT
    finally:
        gc.unfreeze()
        gc.set_threshold(*usual)


def test_a_system_without_that_wish_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the allocator is another one nothing is asked of it, and nothing fails."""
    _share_one_heap()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    _share_one_heap()


def test_cryptography_is_met_by_another_process(tmp_path: Path) -> None:
    """It makes the certificate of a new home; what it cannot do is left to the daemon to tell."""
    home = tmp_path / "home"
    program = "import sys, pathlib; from pairproxy.cli.serving import _check_certificates as check\n"
    program += "from pairproxy.security.identity import load_or_create\n"
    program += "home = pathlib.Path(sys.argv[1]); check(home); load_or_create(home)\n"
    program += "print('cryptography' in sys.modules)"
    arguments = [sys.executable, "-c", program, str(home)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True, timeout=60)
    assert (done.stdout.strip(), (home / "cert.pem").exists()) == ("False", True)
    (tmp_path / "file").write_text("")
    _check_certificates(tmp_path / "file")


def test_what_a_daemon_does_not_need_is_not_in_its_memory() -> None:
    """Each was there once, with megabytes; what needs one imports it when it does."""
    heavy = {
        "aiohttp",
        "cryptography",
        "email",
        "http.client",
        "prometheus_client",
        "psutil",
        "rich",
        "typer",
        "yarl",
        "zeroconf",
    }
    program = "import sys, pairproxy.daemon, pairproxy.cli.serving\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert not heavy.intersection(done.stdout.split())


def test_the_loop_is_the_fast_one_of_the_system_where_somebody_installed_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else it is asyncio's own, and nothing fails."""
    factories = {"uvloop": object(), "winloop": object()}
    for name, factory in factories.items():
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(new_event_loop=factory))
    assert [_loop_factory(system) for system in ("linux", "darwin", "win32")] == [
        factories["uvloop"], factories["uvloop"], factories["winloop"],
    ]  # fmt: skip
    for name in factories:
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    assert _loop_factory("linux") is None
    assert _loop_factory("win32") is None
