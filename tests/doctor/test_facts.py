from pairproxy.api.ports import PortStatus
from pairproxy.doctor.facts import Unknown
from tests.support.diagnosed import ENGINE, FRONT, facts, status


def test_fronts_are_those_that_the_daemon_tells_of() -> None:
    """By kind where it tells of its ports; else by engine, as it left them in daemon.json."""
    assert facts().fronts == {FRONT: f"ollama-{ENGINE}"}
    port = PortStatus("ollama", 11500, "open")
    assert facts(status=status(ports=(port,))).fronts == {11500: "ollama"}
    assert facts(status=Unknown("it does not answer"), daemon=None).fronts == {}


def test_this_node_is_known_only_if_a_daemon_tells() -> None:
    """Nobody else knows."""
    own = facts().own
    assert own is not None
    assert own.name == "desk"
    assert facts(status=Unknown("")).own is None
