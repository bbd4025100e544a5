"""What commands that measure read of the daemon's records; that they are complete the legs' tests show."""

import pytest

from pairproxy.api.schema import Record
from pairproxy.cli.measuring import service_of
from pairproxy.core.errors import PairproxyError


@pytest.mark.parametrize("outcome", ["cancelled", "refused", "truncated"])
def test_a_request_that_did_not_end_well_is_no_measurement(outcome: str) -> None:
    """Its word is in the sentence."""
    record = Record("r", "N", "paced", outcome, 0.0, 0.1, None, 1.0, None, None, 1, None)
    with pytest.raises(PairproxyError, match=outcome):
        service_of(record)


def test_a_request_was_served_from_when_it_was_sent() -> None:
    """Not from its arrival: waiting is no service."""
    record = Record("r", "N", "paced", "done", 0.0, 0.5, 0.7, 2.0, 10, 20, 1, None)
    found = service_of(record)
    assert (found.place.node, found.place.engine) == ("N", "paced")
    assert (found.start_s, found.end_s, found.prompt_tokens, found.output_tokens) == (0.5, 2.0, 10, 20)
