from pairproxy.doctor.facts import Card, Machine
from tests.support.diagnosed import found, told


def test_slow_stand_ins() -> None:
    """The parser is worth a warning, the loop a note."""
    assert found(machine=Machine("3.13.0", "linux", has_fast_parser=False)) == ["parser-slow"]
    assert found(machine=Machine("3.13.0", "linux", has_fast_loop=False)) == ["loop-slow"]


def test_what_is_installed_could_be_faster() -> None:
    """Both are notes that say what it costs and what to do; what nobody knows of a Python is no finding."""
    slow = Machine("3.13.0", "linux", python_build="not optimised")
    assert found(machine=slow) == ["python-slow"]
    assert "Python 3.13.0 was built without optimisation: each request costs" in told(machine=slow)
    assert "uv tool install --force --managed-python" in told(machine=slow)
    assert "PYTHON_CONFIGURE_OPTS='--enable-optimizations --with-lto'" in told(machine=slow)
    assert found(machine=Machine("3.13.0", "linux", python_build="unknown")) == []
    assert found(machine=Machine("3.13.0", "linux", python_build="of the system")) == []
    plain = Machine("3.13.0", "linux", is_compiled=False)
    assert found(machine=plain) == ["not-compiled"]
    assert "PAIRPROXY_COMPILE=1 uv tool install" in told(machine=plain)
    assert found(machine=Machine("3.13.0", "win32", is_compiled=False)) == []


def test_a_checkout_is_meant_to_be_slow() -> None:
    """It runs as it is written, on whatever Python there is."""
    machine = Machine("3.13.0", "linux", python_build="not optimised", is_compiled=False, is_checkout=True)
    assert found(machine=machine) == []


def test_linux_inside_windows_behind_its_own_network() -> None:
    """Not when it shares that of Windows."""
    wsl = Machine("3.13.0", "linux", is_wsl=True)
    hidden = (Card("eth0", "172.20.1.2", "172.20.0.0/20"),)
    assert found(machine=wsl, cards=hidden) == ["wsl-hidden"]
    assert found(machine=wsl) == []
    assert found(cards=hidden) == []
