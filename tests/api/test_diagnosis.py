import msgspec

from pairproxy.api.diagnosis import Diagnosis, Finding, NotLooked

DIAGNOSIS = Diagnosis(
    version="0.1.0",
    node="A",
    has_daemon=True,
    is_ok=False,
    findings=(Finding("port-held", "problem", "Port 11434 is held.", "`pairproxy takeover`", "port 11434"),),
    looked_at=("client ports",),
    not_looked_at=(NotLooked("firewall", "root only"),),
    took_s=1.5,
)


def test_it_comes_back_as_it_was() -> None:
    """What the command writes is what a script reads."""
    assert msgspec.json.decode(msgspec.json.encode(DIAGNOSIS), type=Diagnosis) == DIAGNOSIS


def test_adding_is_free() -> None:
    """A field that this version does not know is no fault."""
    told = msgspec.to_builtins(DIAGNOSIS) | {"new": 1}
    assert msgspec.convert(told, Diagnosis) == DIAGNOSIS
