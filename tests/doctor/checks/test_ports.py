from pairproxy.api.ports import PortStatus
from pairproxy.doctor.facts import Listener, Moved, Unknown
from tests.support.diagnosed import ENGINE, FRONT, engine, facts, found, status, told

OURS = Listener("127.0.0.1", FRONT, 4711, "pairproxy")


def test_what_the_daemon_says_of_its_ports() -> None:
    """held and closed are problems, given is a note, open is none."""
    ports = {
        "held": PortStatus("ollama", FRONT, "held", holder="ollama (pid 7)", why="Wait for it."),
        "closed": PortStatus("ollama", FRONT, "closed", why="No node serves."),
        "given": PortStatus("ollama", FRONT, "given"),
        "open": PortStatus("ollama", FRONT, "open"),
    }
    kinds = {state: found(status=status(ports=(port,))) for state, port in ports.items()}
    assert kinds == {"held": ["port-held"], "closed": ["port-closed"], "given": ["port-given"], "open": []}
    held = told(status=status(ports=(ports["held"],)))
    assert "ollama (pid 7)" in held
    assert "`pairproxy takeover`" in held


def test_a_stranger_at_the_other_loopback_address() -> None:
    """The daemon's own twin is none; nor is anybody where the system shows no programs at all."""
    stranger = Listener("::1", FRONT, 99, "nc")
    assert "nc (pid 99)" in told(listeners=(OURS, stranger))
    assert found(listeners=(OURS, Listener("::1", FRONT, None))) == ["port-shared"]
    assert found(listeners=(Listener("127.0.0.1", FRONT), Listener("::1", FRONT))) == []
    assert found(listeners=(OURS, Listener("::1", ENGINE, 99, "nc"))) == []


def test_an_undo_record_against_what_is_there() -> None:
    """Half done, without a daemon, unreadable; whole and served is silent."""
    whole, half = Moved("ollama", FRONT, ENGINE), Moved("ollama", FRONT, ENGINE, is_whole=False)
    assert found(moved=(whole,)) == []
    assert found(moved=(half,)) == ["takeover-half"]
    gone = Unknown("gone")
    assert found(moved=(whole,), daemon=None, status=gone, models=gone) == [
        "takeover-without-daemon",
        "no-daemon",
    ]
    assert found(moved=Unknown("takeover.json cannot be read.")) == ["takeover-unreadable"]
    assert facts(moved=()).moved == ()


def test_an_engine_that_is_back_on_its_port_is_told_once() -> None:
    """With the daemon, which says that the port is held, and without."""
    whole, back = Moved("ollama", FRONT, ENGINE), (Listener("127.0.0.1", FRONT, 99, "ollama"),)
    held = status(ports=(PortStatus("ollama", FRONT, "held"),))
    assert found(moved=(whole,), listeners=back, status=held) == ["takeover-lost"]
    gone = Unknown("gone")
    without = found(moved=(whole,), listeners=back, daemon=None, status=gone, models=gone)
    assert without == ["takeover-lost", "no-daemon"]


def test_a_port_that_is_closed_because_the_engine_is_down_is_told_once() -> None:
    """What mends it is to start the engine."""
    closed = status(ports=(PortStatus("ollama", FRONT, "closed"),))
    assert found(status=closed, engines=(engine(is_up=False),)) == ["engine-silent"]
