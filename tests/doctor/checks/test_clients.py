from dataclasses import replace

from pairproxy.doctor.examining import judge
from pairproxy.doctor.facts import Moved, Told, Unknown
from tests.support.diagnosed import ENGINE, FRONT, facts, found, told


def test_variables_that_lead_past_the_front() -> None:
    """To the engine itself, or nowhere; those that lead to the front or away are nobody's fault."""
    assert found(surroundings=(Told("this shell", {"OLLAMA_HOST": f"127.0.0.1:{FRONT}"}),)) == []
    assert found(surroundings=(Told("this shell", {"OPENAI_BASE_URL": "https://api.example/v1"}),)) == []
    words = told(surroundings=(Told("/x/.zshrc", {"OPENAI_BASE_URL": f"http://localhost:{ENGINE}/v1"}),))
    assert "is set in /x/.zshrc" in words
    assert found(surroundings=(Told("this shell", {"OLLAMA_HOST": "10.0.0.9"}),)) == ["clients-bypass"]


def test_a_proxy_that_catches_localhost_has_a_name_of_its_own() -> None:
    """And what it holds is not repeated."""
    proxied = (Told("this shell", {"HTTP_PROXY": "http://me:word@proxy:3128"}),)
    assert found(surroundings=proxied) == ["clients-proxied"]
    assert "word" not in told(surroundings=proxied)


def test_without_a_daemon_the_usual_ports_count() -> None:
    """11434 is a front, 11534 is private."""
    gone = Unknown("gone")
    led = {"OLLAMA_HOST": "127.0.0.1:11534"}
    assert "clients-bypass" in found(
        daemon=None, status=gone, models=gone, engines=(), surroundings=(Told("this shell", led),)
    )


def test_a_variable_that_a_takeover_on_windows_needs_is_a_note() -> None:
    """Elsewhere nothing needs it."""
    led = (Told("this shell", {"OLLAMA_HOST": f"127.0.0.1:{ENGINE}"}),)
    moved = (Moved("ollama", FRONT, ENGINE),)
    for system, is_ok in (("win32", True), ("linux", False)):
        machine = replace(facts().machine, system=system)
        diagnosis = judge(facts(surroundings=led, moved=moved, machine=machine), "A", 0.0)
        assert [one.id for one in diagnosis.findings] == ["clients-bypass"]
        assert diagnosis.is_ok is is_ok
