import pytest

from pairproxy.core.handshake import MESSAGE_BYTES
from pairproxy.core.handshake_steps import Reason, refusal


@pytest.mark.parametrize("reason", Reason)
def test_a_refusal_is_short_and_names_nobody(reason: Reason) -> None:
    """One word for each reason, with the tries that are left where the host says so."""
    assert refusal(reason) == b"R" + reason.value.encode()
    assert refusal(reason, 2) == b"R" + reason.value.encode() + b" 2"
    assert len(refusal(reason, 2)) < MESSAGE_BYTES
    assert reason.value.isalpha()
