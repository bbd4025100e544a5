from dataclasses import replace

import msgspec

from pairproxy.api.offering import OfferStatus
from pairproxy.api.service import ServiceState
from pairproxy.doctor.facts import Machine, Process, Unknown
from tests.support.diagnosed import facts, found, status, told

GONE = Unknown("it does not answer")


def test_no_daemon_is_a_note_and_a_dead_one_a_problem() -> None:
    """One that hangs is told from one that was killed."""
    assert found(daemon=None, status=GONE, models=GONE) == ["no-daemon"]
    dead = told(status=GONE, models=GONE, process=Process(4711, 0, is_alive=False))
    assert "pid 4711) does not answer: it was killed" in dead
    assert "Start it again with `pairproxy up`" in dead
    assert "`kill 4711`" in told(status=GONE, models=GONE, process=Process(4711, 5000))
    there = Unknown("this system does not tell the limits of another process")
    windows = told(status=GONE, models=GONE, process=there, machine=Machine("3.13.0", "win32"))
    assert "it hangs or is of another version" in windows
    assert "`taskkill /F /PID 4711`" in windows


def test_of_a_service_that_is_stopped_only_that_is_told() -> None:
    """Not that no daemon runs, too."""
    service = ServiceState("systemd-user", is_installed=True, state="failed")
    assert found(daemon=None, status=GONE, models=GONE, services=(service,)) == ["service-stopped"]


def test_an_update_that_the_daemon_does_not_know_of() -> None:
    """Both versions are named."""
    assert "pairproxy 0.0.9" in told(status=status(version="0.0.9"))


def test_a_loop_that_was_held_up() -> None:
    """From a quarter of a second on."""
    assert found(status=status(loop_lag_s=0.2)) == []
    assert "held up for 1.5 s" in told(status=status(loop_lag_s=1.5))


def test_few_descriptors() -> None:
    """Fewer than clients may connect; a dead process is another finding's."""
    assert found(process=Process(1, 1024)) == []
    assert "may open 256 files" in told(process=Process(1, 256))


def test_history_that_is_not_written() -> None:
    """As the daemon says, else as the file looks."""
    assert told(status=status(history_problem="The disk is full."), history_problem="").startswith("The disk")
    assert told(history_problem="It is newer.").startswith("It is newer.")


def test_a_node_that_offers_nothing_says_why() -> None:
    """It is a note: its owner may mean it so."""
    offer = OfferStatus(withheld="battery", why="It runs on battery, so peers get no slot.")
    assert found(status=status(offer=offer)) == ["offers-nothing"]
    unseen = msgspec.structs.replace(OfferStatus(), share="idle", unknown=("the GPU",))
    assert found(status=status(offer=unseen)) == ["idle-unseen"]
    assert replace(facts(), status=status(offer=OfferStatus(unknown=("the GPU",)))).own is not None
    assert found(status=status(offer=OfferStatus(unknown=("the GPU",)))) == []
