"""What `pairproxy service --json` prints comes back as it went."""

import msgspec
import pytest

from pairproxy.api.service import ServiceChanged, ServiceState, ServiceStatus

RUNS = ServiceState(
    "systemd-user",
    True,
    True,
    True,
    "active/running",
    "when you log in",
    "/f",
    "/home",
    7,
    1.5,
    0,
    "serves",
    "log",
)


@pytest.mark.parametrize(
    "document",
    [
        RUNS,
        ServiceStatus((RUNS,), has_daemon=True),
        ServiceChanged(False, ("write /f",), ("A note.",), (RUNS,)),
    ],
)
def test_it_comes_back(document: msgspec.Struct) -> None:
    """Each document is read as what it was."""
    assert msgspec.json.decode(msgspec.json.encode(document), type=type(document)) == document


def test_one_that_is_not_installed_needs_no_more_words() -> None:
    """Everything else has a value that says nothing."""
    told = msgspec.json.decode(
        msgspec.json.encode(ServiceState("launchd", is_installed=False)), type=ServiceState
    )
    assert (told.is_running, told.pid, told.problem) == (False, None, None)
