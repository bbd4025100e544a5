from pairproxy.doctor.facts import Card, Machine
from tests.support.diagnosed import found


def test_slow_stand_ins() -> None:
    """The parser is worth a warning, the loop a note."""
    assert found(machine=Machine("3.13.0", "linux", has_fast_parser=False)) == ["parser-slow"]
    assert found(machine=Machine("3.13.0", "linux", has_fast_loop=False)) == ["loop-slow"]


def test_linux_inside_windows_behind_its_own_network() -> None:
    """Not when it shares that of Windows."""
    wsl = Machine("3.13.0", "linux", is_wsl=True)
    hidden = (Card("eth0", "172.20.1.2", "172.20.0.0/20"),)
    assert found(machine=wsl, cards=hidden) == ["wsl-hidden"]
    assert found(machine=wsl) == []
    assert found(cards=hidden) == []
