import dataclasses

import pytest

from pairproxy.cli.bench.overhead.gates import Gate, gates, is_any_missed
from tests.cli.bench.overhead.conftest import made_figures


def by_name(found: list[Gate], name: str) -> Gate:
    """The one that begins so."""
    return next(gate for gate in found if gate.name.startswith(name))


@pytest.mark.parametrize(
    ("value", "verdict"),
    [(2.1, "MISSED"), (2.0, "passed"), (1.6, "ambitious"), (1.2, "stretch"), (None, "not measured")],
)
def test_a_verdict_is_the_best_bound_that_holds(value: float | None, verdict: str) -> None:
    """At the bound it holds."""
    assert Gate("x", value, "x", 2.0, 1.6, 1.2).verdict == verdict


def test_what_should_be_much_is_judged_from_below() -> None:
    """And what has no must cannot be missed."""
    assert Gate("x", 0.19, "x", 0.2, 0.28, is_least=True).is_missed
    behind = Gate("x", 39.0, "x", None, 40.0, is_least=True)
    assert (behind.is_missed, behind.verdict) == (False, "behind")


def test_gates_are_of_one_run() -> None:
    """Ratios to nginx in the same table; what a peer adds is told in milliseconds."""
    table = {
        ("nginx", "json-1"): made_figures(first_byte_p50_us=100.0),
        ("pairproxy", "json-1"): made_figures(first_byte_p50_us=150.0),
        ("pairproxy-peer", "peer-1"): made_figures(first_byte_p50_us=650.0),
        ("pairproxy", "json-64"): made_figures(cpu_s_per_1000_requests=0.1),
        ("litellm", "json-64"): made_figures(cpu_s_per_1000_requests=5.0),
    }
    found = gates(table)
    assert by_name(found, "first byte, one client").value == 1.5
    assert by_name(found, "first byte, added by a peer").value == 0.5
    assert by_name(found, "small JSON per CPU second, 64 clients / litellm").value == pytest.approx(50.0)
    assert by_name(found, "peak memory").verdict == "not measured"
    assert not is_any_missed(found)


def test_an_error_or_a_stream_without_a_byte_misses() -> None:
    """512 streams: no error."""
    broken = dataclasses.replace(made_figures(), unanswered=1)
    assert is_any_missed(gates({("pairproxy", "paced-512"): broken}))
