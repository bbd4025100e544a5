from dataclasses import replace

from pairproxy.admin.engines import engine_status
from tests.core.told import B, document


def test_an_engine_is_told_with_its_models_and_what_runs_there() -> None:
    """Its node's own last word may be older than what this node sent there."""
    state = replace(document(B, slots=4, frees=(1.0,)).engines[0], foreign=1)
    told = engine_status(state, 11434, known=3)
    assert (told.slots, told.in_flight, told.port, told.is_up, told.foreign) == (4, 3, 11434, True, 1)
    assert [one.model for one in told.replicas] == ["m:latest"]
    assert engine_status(state, None, is_up=False).in_flight == 1
