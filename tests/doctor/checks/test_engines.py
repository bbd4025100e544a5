from pairproxy.api.diagnosis import Measured
from pairproxy.config import EngineSettings, Settings
from pairproxy.doctor.facts import Listener, Unknown
from tests.support.diagnosed import ENGINE, engine, facts, found, told


def test_an_engine_that_is_down_and_a_machine_without_any() -> None:
    """The first is a problem, the second a note."""
    assert found(engines=(engine(is_up=False),)) == ["engine-silent"]
    assert found(engines=()) == ["no-engine"]
    ours = Settings(engines=(EngineSettings(kind="embedded"),))
    assert found(engines=(), settings=ours) == []


def test_a_version_with_a_hole_names_the_hole_and_the_one_that_mends_all() -> None:
    """The latest of several."""
    words = told(engines=(engine(version="0.1.40"),))
    assert "CVE-2026-7482" in words
    assert "CVE-2024-45436" in words
    assert "(0.17.1 or later)" in words


def test_an_engine_that_others_reach() -> None:
    """By any address but loopback's, also one of IPv4 written in IPv6."""
    for host in ("0.0.0.0", "::", "192.0.2.7", "fe80::1%eth0"):
        listeners = (*facts().listeners, Listener(host, ENGINE, 4712, "ollama"))  # type: ignore[misc]
        assert found(listeners=listeners) == ["engine-exposed"], host
    for host in ("127.0.0.2", "::1", "::ffff:127.0.0.1"):
        assert found(listeners=(Listener(host, ENGINE, 4712, "ollama"),)) == [], host


def test_slots_against_what_the_engine_was_told_and_what_it_does() -> None:
    """What was measured counts more; what cannot be read says nothing."""
    assert "waits inside it" in told(engines=(engine(slots=4, parallel=1),))
    assert "lies idle" in told(engines=(engine(slots=1, parallel=4),))
    assert found(engines=(engine(slots=4, parallel=None),)) == []
    assert found(engines=(engine(slots=None, parallel=4),)) == []
    assert "was seen to compute 2" in told(measured=(Measured("ollama-1", 4, 6, 2),))
    seen = (Measured(f"ollama-{ENGINE}", 4, 6, 4),)
    assert found(engines=(engine(slots=4, parallel=1),), measured=seen) == []


def test_where_sockets_are_not_shown_trying_tells() -> None:
    """As on macOS for who is not root."""
    hidden = Unknown("not shown")
    assert found(listeners=hidden) == []
    assert found(listeners=hidden, reached=(Listener("10.0.0.1", ENGINE),)) == ["engine-exposed"]
