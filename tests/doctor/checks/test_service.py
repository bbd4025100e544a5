from typing import Any

import msgspec

from pairproxy.api.service import ServiceState
from pairproxy.doctor.facts import Unknown
from tests.support.diagnosed import found, told

GOOD = ServiceState(
    "systemd-user", is_installed=True, is_enabled=True, is_running=True, log="journalctl -u x"
)


def with_(**changes: Any) -> tuple[ServiceState, ...]:
    """The good one, changed."""

    return (msgspec.structs.replace(GOOD, **changes),)


def test_a_service_that_runs_and_is_enabled_is_silent() -> None:
    """And so is a machine without one."""
    assert found(services=(GOOD,)) == []
    assert found(services=()) == []


def test_what_is_wrong_with_it_is_told_once() -> None:
    """The worst of it, with its log."""
    assert found(services=with_(problem="It fails. Do this.", is_running=False)) == ["service-fails"]
    assert found(services=with_(is_running=False, state="inactive")) == ["service-stopped"]
    assert "`journalctl -u x`" in told(services=with_(is_running=False))
    assert found(services=with_(is_enabled=False)) == ["service-not-enabled"]


def test_two_of_them_are_one_too_many() -> None:
    """A person's and the system's have the same home."""
    assert found(services=(GOOD, *with_(manager="systemd"))) == ["services-two"]


def test_a_service_of_another_home_is_not_judged_and_named_where_none_runs_here() -> None:
    """Who looks with the wrong home is told the right one."""
    other = with_(home="/somewhere/else", problem="It fails.")
    assert found(services=other) == []
    gone = Unknown("gone")
    running = with_(home="/somewhere/else")
    assert found(daemon=None, status=gone, models=gone, services=running) == ["other-home"]
