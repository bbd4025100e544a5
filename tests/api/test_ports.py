"""The client ports as JSON."""

import msgspec
import pytest

from pairproxy.api.ports import PortsAnswer, PortStatus, PortWish


def test_a_port_comes_back_from_its_json() -> None:
    """Who asks the daemon reads what it wrote."""
    answer = PortsAnswer("NODE", (PortStatus("ollama", 11434, "held", holder="ollama (pid 7)", why="So."),))
    assert msgspec.json.decode(msgspec.json.encode(answer), type=PortsAnswer) == answer


@pytest.mark.parametrize("text", [b'{"want":"grab"}', b'{"want":"take","prot":1}', b"{}"])
def test_a_wish_that_is_none_is_refused(text: bytes) -> None:
    """A mistyped wish must not count as another one."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(text, type=PortWish)
