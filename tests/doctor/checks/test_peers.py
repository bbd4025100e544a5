from dataclasses import replace

import pytest

from pairproxy.doctor.facts import Firewall, OpenFile
from pairproxy.security.peer_record import PeerRecord
from tests.support.diagnosed import HOME, facts, found, peer, status, told
from tests.support.statuses import B, C


@pytest.mark.parametrize(
    ("problem", "kind"),
    [
        ("it no longer trusts this machine; pair the two again to use it", "peer-refuses"),
        ("it needs an update of pairproxy: it speaks protocol 0, this machine 1", "peer-refuses"),
        ("it answered with another key", "peer-refuses"),
        ("it was silent for 5 s", "peer-away"),
        (None, "peer-away"),
    ],
)
def test_peers_that_are_not_reached(problem: str | None, kind: str) -> None:
    """Those that refuse us are a problem; those that are off are a note, once the daemon had time to look."""
    gone = peer(is_up=False, hears_us=False, problem=problem)
    assert found(status=status(gone)) == [kind]
    young = found(status=status(gone, uptime_s=2.0))
    assert young == ([kind] if kind == "peer-refuses" else [])


def test_a_peer_that_is_heard_and_does_not_listen() -> None:
    """If it may use this machine, and the packet filter here is not why."""
    deaf = status(peer(hears_us=False))
    assert "TCP port 11634" in told(status=deaf)
    barred = PeerRecord(B, "laptop", b"", may_use_me=False, i_may_use=True)  # type: ignore[arg-type]
    assert found(status=deaf, peers=(barred,)) == []
    assert found(status=deaf, firewall=Firewall("ufw", (("tcp", 11634),))) == ["firewall-shut"]


@pytest.mark.parametrize(
    ("system", "command"), [("linux", "timedatectl"), ("darwin", "sntp"), ("win32", "w32tm")]
)
def test_a_clock_that_is_off(system: str, command: str) -> None:
    """Against one peer it may be either's; against most of them, of one mind, it is this one's."""
    machine = replace(facts().machine, system=system)
    one = told(status=status(peer(clock_ahead_s=-60.0)), machine=machine)
    assert one.startswith("The clock of laptop is 60 s behind that of this machine.")
    assert command in one
    others = [peer(clock_ahead_s=61.0), peer(node=C, name="third", clock_ahead_s=59.0)]
    assert told(status=status(*others)).startswith("The clock of this machine is 59 s behind")
    others = [peer(clock_ahead_s=0.2), peer(node=C, name="third", clock_ahead_s=60.0)]
    assert told(status=status(*others)).startswith("The clock of third is 60 s ahead of that of this machine")
    others = [peer(clock_ahead_s=-60.0), peer(node=C, name="third", clock_ahead_s=60.0)]
    assert found(status=status(*others)) == ["clock-off", "clock-off"]
    assert found(status=status(peer(clock_ahead_s=3.0))) == []
    assert found(status=status(peer(clock_ahead_s=None))) == []


def test_another_version_is_a_note() -> None:
    """One that does not say is none."""
    assert found(status=status(peer(version="0.0.9"))) == ["versions-differ"]
    assert found(status=status(peer(version=""))) == []


def test_files_of_peers_that_cannot_be_used() -> None:
    """Unless it is their modes: another check has the command for those."""
    assert found(peers_problem="x.json is damaged.") == ["peers-unreadable"]
    loose = (OpenFile(HOME / "peers" / "x.json", 0o644, "600"),)
    assert found(peers_problem="x.json is open to others.", files=loose) == ["files-open"]
