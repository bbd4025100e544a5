import msgspec

from pairproxy.cli.bench.overhead.figures import Heard, Sample, figures, ratio, value_of


def heard(first_byte_us: float, requests: int = 500, errors: int = 0) -> Heard:
    """A thousand requests of fifty tokens."""
    return Heard(2.0, requests, 0, 1000, 50_000, errors, 1, first_byte_us, 9.0, 9.0, 9.0, 0.0, 0.0)


def test_figures_are_medians_and_errors_are_sums() -> None:
    """Costs are of all that was asked, rates of what was measured."""
    samples = [Sample(heard(us, errors=2), 0.5 * us, 10_000_000) for us in (1.0, 9.0, 2.0)]
    found = figures(samples, is_stream=True)
    assert (found.first_byte_p50_us, found.requests_per_s, found.errors, found.unanswered) == (
        2.0,
        250.0,
        6,
        3,
    )
    assert (found.cpu_s_per_1000_requests, found.cpu_s_per_100k_chunks, found.peak_mb) == (1.0, 2.0, 10.0)
    assert found.requests_per_cpu_s == 1000.0


def test_what_was_not_measured_is_none() -> None:
    """No process, no tokens, no first byte at all."""
    found = figures([Sample(heard(0.0))], is_stream=False)
    assert found.first_byte_p50_us is found.transit_p50_us is found.cpu_s_per_1000_requests is None
    assert found.cpu_s_per_100k_chunks is found.peak_mb is found.requests_per_cpu_s is None


def test_a_token_of_a_reply_that_was_never_done_does_not_bear_all_costs() -> None:
    """Then there is no such figure."""
    broken = Sample(msgspec.structs.replace(heard(1.0), all_requests=0, all_tokens=7), 20.0)
    assert figures([broken], is_stream=True).cpu_s_per_100k_chunks is None


def test_ratios_are_where_both_are_known() -> None:
    """Else there is none."""
    assert (ratio(3.0, 2.0), ratio(None, 2.0), ratio(3.0, None), ratio(3.0, 0.0)) == (1.5, None, None, None)
    assert value_of(None, "peak_mb") is None
