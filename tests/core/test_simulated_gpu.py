import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairproxy.core.models import AttemptId, ModelName, Rates, RequestId
from pairproxy.core.simulated_gpu import Phase, SimulatedGpu

M = ModelName("m")
RATES = Rates(prefill=100.0, decode=10.0, beta=1.0, load_s=5.0)


def attempt(name: str) -> AttemptId:
    """The first attempt of a request."""
    return AttemptId(RequestId(name), 1)


def gpu(slots: int = 4) -> SimulatedGpu:
    """A machine with the model in memory since the beginning."""
    made = SimulatedGpu(slots)
    made.preload(0.0, M)
    return made


def times(machine: SimulatedGpu, phase: Phase) -> dict[str, float]:
    """When each request that runs comes to the end of a phase; the machine is idle afterwards."""
    return {one.attempt.request: one.at for one in machine.advance(1e9) if one.phase is phase}


def test_a_request_alone_takes_its_prefill_and_its_decode() -> None:
    """The model being loaded."""
    machine = gpu()
    machine.start(3.0, attempt("r"), M, RATES, 200, 30)
    reached = [(one.at, one.phase) for one in machine.advance(9.0)]
    assert reached == [(3.0, Phase.LOAD), (5.0, Phase.PREFILL), (8.0, Phase.DECODE)]


def test_a_cold_model_is_loaded_once() -> None:
    """Whoever comes while it is loading waits for the rest of it."""
    machine = SimulatedGpu(4)
    machine.start(0.0, attempt("r1"), M, RATES, 100, 10)
    machine.advance(2.0)
    machine.start(2.0, attempt("r2"), M, RATES, 100, 10)
    assert not machine.is_loaded(4.9, M)
    read = times(machine, Phase.PREFILL)
    assert read == pytest.approx({"r1": 7.0, "r2": 7.0})  # both from 5 s on, at half the rate
    assert machine.is_loaded(5.0, M)
    machine.start(2e9, attempt("r3"), M, RATES, 100, 10)
    assert machine.advance(2e9)[0].phase is Phase.LOAD


def test_company_slows_down_and_its_end_speeds_up() -> None:
    """Work is kept, whenever the rate changes under it."""
    machine = gpu()
    machine.start(0.0, attempt("long"), M, RATES, 0, 30)
    machine.advance(1.0)
    machine.start(1.0, attempt("short"), M, RATES, 0, 5)
    ended = times(machine, Phase.DECODE)
    assert ended == pytest.approx({"short": 2.0, "long": 1.0 + 1.0 + 1.5})  # half the rate for both


def test_a_dropped_request_gives_its_share_back() -> None:
    """From that moment on; dropping what has ended changes nothing."""
    machine = gpu()
    machine.start(0.0, attempt("r1"), M, RATES, 0, 20)
    machine.start(0.0, attempt("r2"), M, RATES, 0, 20)
    machine.advance(2.0)
    machine.stop(attempt("r2"))
    machine.stop(attempt("r2"))
    assert not machine.runs(attempt("r2"))
    assert times(machine, Phase.DECODE) == pytest.approx({"r1": 3.0})
    assert (machine.in_flight, machine.next_change(), machine.most_in_flight) == (0, None, 2)


def test_more_than_the_slots_is_a_fault() -> None:
    """It is the scheduler's promise never to do so."""
    machine = gpu(1)
    machine.start(0.0, attempt("r1"), M, RATES, 1, 1)
    with pytest.raises(RuntimeError, match="1 slots"):
        machine.start(0.0, attempt("r2"), M, RATES, 1, 1)


def test_a_cached_start_is_not_read_again() -> None:
    """At the next reading of it; while the first is under way it is not there yet."""
    machine = SimulatedGpu(4, cache_tokens=640)
    machine.preload(0.0, M)
    machine.start(0.0, attempt("r1"), M, RATES, 100, 28, (1,), (2,))
    machine.advance(0.5)
    machine.start(0.5, attempt("too early"), M, RATES, 100, 0, (1,))
    machine.advance(20.0)
    machine.start(20.0, attempt("r2"), M, RATES, 228, 10, (1, 2, 3))
    reached = [(one.at, one.cached_tokens) for one in machine.advance(30.0) if one.attempt.request == "r2"]
    assert [cached for _, cached in reached] == [128, 128, 128]
    assert [at for at, _ in reached] == pytest.approx([20.0, 21.0, 22.0])


def test_one_token_at_least_is_read() -> None:
    """Also of a prompt that is cached to its end."""
    machine = SimulatedGpu(1, cache_tokens=640)
    machine.preload(0.0, M)
    for start in (0.0, 10.0):
        machine.start(start, attempt(f"at {start}"), M, RATES, 64, 0, (1,))
        reached = machine.advance(start + 5.0)
    assert reached[-1].cached_tokens == 63
    assert reached[-1].at == pytest.approx(10.01)


def test_a_dropped_request_gives_its_blocks_back() -> None:
    """What it had not read to its end is not cached."""
    machine = SimulatedGpu(1, cache_tokens=64)
    machine.preload(0.0, M)
    machine.start(0.0, attempt("r1"), M, RATES, 128, 0, (1, 2))
    machine.advance(1.0)
    machine.stop(attempt("r1"))
    machine.start(1.0, attempt("r2"), M, RATES, 64, 0, (1,))
    assert machine.advance(5.0)[-1].cached_tokens == 0


def test_reading_and_writing_slow_each_other() -> None:
    """By the factor that is set, while both go on and no longer."""
    machine = SimulatedGpu(2, interference=2.0)
    machine.preload(0.0, M)
    rates = Rates(prefill=100.0, decode=10.0, beta=0.0)
    machine.start(0.0, attempt("writes"), M, rates, 0, 30)
    machine.advance(1.0)
    machine.start(1.0, attempt("reads"), M, rates, 100, 0)
    reached = {(str(one.attempt.request), one.phase): one.at for one in machine.advance(9.0)}
    assert reached["reads", Phase.PREFILL] == pytest.approx(3.0)
    assert reached["writes", Phase.DECODE] == pytest.approx(4.0)


def test_a_machine_in_use_is_slower() -> None:
    """From the moment its pace changes; the work that was done stays done."""
    machine = gpu(1)
    machine.start(0.0, attempt("r"), M, RATES, 100, 20)
    machine.advance(2.0)
    machine.set_pace(0.5)
    assert times(machine, Phase.DECODE) == pytest.approx({"r": 2.0 + 2.0})


@given(
    works=st.lists(
        st.tuples(st.floats(0, 50), st.integers(0, 500), st.integers(0, 50)), min_size=1, max_size=8
    ),
    steps=st.lists(st.floats(0.01, 20), max_size=20),
)
def test_looking_in_between_changes_nothing(works: list[tuple[float, int, int]], steps: list[float]) -> None:
    """However often the machine is asked, requests end when they would have ended; none faster than alone."""
    plain, watched = gpu(8), gpu(8)
    seen, time = [], 0.0
    for index, (start, prompt, output) in enumerate(sorted(works)):
        for step in steps:
            if time + step < start:
                time += step
                seen += watched.advance(time)
        seen += watched.advance(start)
        plain_reached = plain.advance(start)
        plain.start(start, attempt(f"r{index}"), M, RATES, prompt, output)
        watched.start(start, attempt(f"r{index}"), M, RATES, prompt, output)
        assert len(plain_reached) <= 3 * index
    late, last = plain.advance(1e6), watched.advance(1e6)
    assert (plain.in_flight, watched.in_flight) == (0, 0)
    ended = {one.attempt: one.at for one in [*seen, *last] if one.phase is Phase.DECODE}
    for one in late:
        if one.phase is Phase.DECODE:
            assert ended[one.attempt] == pytest.approx(one.at, abs=1e-6)
    for index, (start, prompt, output) in enumerate(sorted(works)):
        assert ended[attempt(f"r{index}")] >= start + prompt / 100 + output / 10 - 1e-6
