"""Copies as JSON."""

import msgspec
import pytest

from pairproxy.api.replication import CopyProgress, CopyWish, PeerCopyWish


def test_a_line_comes_back_from_its_json() -> None:
    """The command reads what the daemon wrote, and a node what another one did."""
    line = CopyProgress("NODE", "copying", "m:1", "ben", False, 1, 2, 3, 4, 5.0, 6.0, problem="so")
    assert msgspec.json.decode(msgspec.json.encode(line), type=CopyProgress) == line


@pytest.mark.parametrize("text", [b"{}", b'{"model":"m","too":"B"}', b'{"model":"m","limit_bytes_per_s":-1}'])
def test_a_wish_that_is_none_is_refused(text: bytes) -> None:
    """A mistyped wish must not count as another one."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(text, type=CopyWish)


def test_a_newer_peer_may_say_more() -> None:
    """Between nodes of different age what is not known is left out."""
    told = msgspec.json.decode(b'{"model":"m","priority":3}', type=PeerCopyWish)
    assert told == PeerCopyWish("m")
