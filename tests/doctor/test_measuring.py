from dataclasses import replace

import msgspec
import pytest

from pairproxy.doctor.examining import judge
from pairproxy.doctor.facts import Unknown
from pairproxy.doctor.measuring import Seen, at_once, measured
from tests.support import engine_scripts as scripts
from tests.support.diagnosed import engine, facts, status
from tests.support.engine_thread import in_thread


@pytest.mark.parametrize(
    ("times", "count"),
    [
        ([(0.1, 1.0), (0.1, 1.0), (0.2, 1.1)], 3),
        ([(0.1, 1.0), (1.1, 2.0), (2.1, 3.0)], 1),
        ([(0.1, 1.0), (0.2, 1.0), (1.1, 2.0), (1.2, 2.0)], 2),
        ([(1.0, 1.0), (2.0, 2.0)], 1),
    ],
)
def test_those_that_began_before_the_first_ended_ran_together(
    times: list[tuple[float, float]], count: int
) -> None:
    """Replies in one piece (first token and end at once) tell of one at a time."""
    assert at_once([Seen(*one) for one in times]) == count


def test_nothing_is_loaded_for_a_measurement() -> None:
    """Without a loaded model, or a daemon, it says why there is none."""
    assert isinstance(measured(facts(status=Unknown("no daemon"))), Unknown)
    assert isinstance(measured(facts(engines=())), Unknown)


def test_nothing_is_measured_beside_work() -> None:
    """It would count that, too; and doctor says that it did not measure."""
    own = facts().own
    assert own is not None
    busy = msgspec.structs.replace(own.engines[0], in_flight=1)
    at_work = facts(status=status(nodes=(msgspec.structs.replace(own, engines=(busy,)),)))
    told = measured(at_work)
    assert told == Unknown("requests run on this machine: measure when it is idle")
    diagnosis = judge(replace(at_work, measured=told), "A", 0.0)
    assert [one.what for one in diagnosis.not_looked_at] == ["slots by measuring"]


def test_an_engine_that_breaks_off_is_not_measured() -> None:
    """What was seen of some requests says nothing."""
    with in_thread(scripts.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nx", then="close")) as broken:
        told = measured(facts(engines=(engine(port=broken.port),)))
    assert told == Unknown("the engine did not answer all requests of the measurement")


def test_what_an_engine_refuses_it_did_not_compute() -> None:
    """One that is full says so at once: that would look like many at once."""
    full = scripts.raw(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", then="close")
    with in_thread(full) as refusing:
        told = measured(facts(engines=(engine(port=refusing.port),)))
    assert told == Unknown("the engine did not answer all requests of the measurement")
