import pytest

from pairproxy.doctor.redacting import Redactor

ANNA = "K7QF2M6A" + "A" * 44


@pytest.fixture
def redactor() -> Redactor:
    """Knows a person, a machine and its id."""
    return Redactor(
        [("home", "/somewhere/anna"), ("user", "anna", "ANNA"), ("host", "anna-ws.example", "anna-ws"),
         ("node", ANNA, "The Desk", "K7QF-2M6A", "K7QF2M6A"), ("node", "x")]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("anna at anna-ws", "user-1 at host-1"),
        ("Anna's /somewhere/anna/.config", "user-1's home-1/.config"),
        ("savanna annals", "savanna annals"),
        ("the desk (K7QF-2M6A)", "node-1 (node-1)"),
        (f"{ANNA}.json", "node-1.json"),
        ("B" * 52, "node-3"),
        ("x", "node-2"),
        ("an x in a text", "an x in a text"),
        ("10.0.0.7:11634 and 10.0.0.7", "address-1:11634 and address-1"),
        ("127.0.0.1 ::1 0.0.0.0 224.0.0.251", "127.0.0.1 ::1 0.0.0.0 224.0.0.251"),
        ("[fe80::1%eth0]:11634", "[address-1]:11634"),
        ("2001:db8::7", "address-1"),
        ("at 12:34:56", "at 12:34:56"),
        ("0.35.1 of 3.14.5", "0.35.1 of 3.14.5"),
        ("02:00:00:aa:bb:cc", "hardware-1"),
        ("http://me:word@proxy.example:3128", "http://proxy.example:3128"),
        ("write to a.b@example.org", "write to mail-1"),
    ],
)
def test_what_names_somebody_gets_a_stand_in(redactor: Redactor, text: str, redacted: str) -> None:
    """Whole words in any case, ids, addresses, hardware; times, versions and loopback stay."""
    assert redactor.text(text) == redacted


def test_the_same_has_the_same_stand_in_everywhere(redactor: Redactor) -> None:
    """Also as the name of a field, and in lists."""
    told = redactor.value({"10.0.0.9": ["10.0.0.8", {"a": "10.0.0.9"}], "n": 3, "none": None, "yes": True})
    assert told == {"address-1": ["address-2", {"a": "address-1"}], "n": 3, "none": None, "yes": True}
    assert redactor.told["address"] == 2
