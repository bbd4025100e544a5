"""What OLLAMA_HOST means; the cases are those of Ollama's own envconfig tests."""

import pytest

from pairproxy.takeover.ollama_host import Address, read

CASES = {
    "": ("127.0.0.1", 11434),
    "1.2.3.4": ("1.2.3.4", 11434),
    ":1234": ("", 1234),
    "1.2.3.4:1234": ("1.2.3.4", 1234),
    "example.com": ("example.com", 11434),
    "example.com:1234": ("example.com", 1234),
    "[::1]": ("::1", 11434),
    "::1": ("::1", 11434),
    "[::]:1337": ("::", 1337),
    "0.0.0.0": ("0.0.0.0", 11434),
    "http://1.2.3.4": ("1.2.3.4", 80),
    "https://1.2.3.4": ("1.2.3.4", 443),
    "http://1.2.3.4:4321/path": ("1.2.3.4", 4321),
    ' "1.2.3.4" ': ("1.2.3.4", 11434),
    "'1.2.3.4'": ("1.2.3.4", 11434),
    "1.2.3.4:66000": ("1.2.3.4", 11434),
    "1.2.3.4:-1": ("1.2.3.4", 11434),
    "localhost:11534": ("localhost", 11534),
}


@pytest.mark.parametrize("value", CASES)
def test_a_value_is_read_as_ollama_reads_it(value: str) -> None:
    """Scheme, host and port may each be missing."""
    assert read(value) == Address(*CASES[value])


@pytest.mark.parametrize("value", ["0.0.0.0", ":11434", "[::]", "192.168.1.5:11434", "studio.local"])
def test_what_others_reach_counts_as_exposed(value: str) -> None:
    """Without a host it is every address of the machine."""
    assert read(value).is_exposed


@pytest.mark.parametrize("value", ["", "127.0.0.1:11534", "[::1]", "localhost", "127.1.2.3"])
def test_loopback_is_not_exposed(value: str) -> None:
    """Every address of 127/8, ::1 and the name."""
    assert not read(value).is_exposed
    assert read(value).is_here


def test_a_client_of_all_addresses_asks_this_machine() -> None:
    """Ollama's clients take 0.0.0.0 for 127.0.0.1."""
    assert read("0.0.0.0:11434").is_here
    assert not read("studio.local").is_here
