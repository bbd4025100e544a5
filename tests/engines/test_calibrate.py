import pytest

from pairproxy.config import Limits, PacedSettings
from pairproxy.core.models import ModelName, Rates, Usage
from pairproxy.engines import calibrate as calibrate_module
from pairproxy.engines.calibrate import (
    COMPANY_TOKENS,
    MOST_COMPANY,
    OUTPUT_TOKENS,
    calibrate,
    calibrate_company,
)
from pairproxy.engines.paced import PacedEngine
from pairproxy.upstreams import Upstream
from tests.support.engine_scripts import head, json_reply, raw
from tests.support.fake_engine import FakeEngine, Script
from tests.support.running import run_async

pytestmark = pytest.mark.timed

MODEL = ModelName("paced:1b")
SAID = {
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "x"}, "finish_reason": "length"}],
    "usage": {"prompt_tokens": 100, "completion_tokens": 24},
    "timings": {"prompt_n": 100, "prompt_ms": 200.0, "predicted_n": 24, "predicted_ms": 480.0},
}


def measured(script: Script) -> tuple[Usage | None, FakeEngine]:
    """Calibrate an engine with this script."""

    async def scene() -> tuple[Usage | None, FakeEngine]:
        async with FakeEngine(script) as engine:
            upstream = Upstream(engine, limits=Limits())
            try:
                return await calibrate(upstream, MODEL), engine
            finally:
                await upstream.close()

    return run_async(scene())


def test_it_measures_the_pace_of_an_engine() -> None:
    """What it finds is what the engine was set to, within a tenth."""

    async def scene() -> Usage | None:
        engine = PacedEngine(PacedSettings(prefill=2000.0, decode=200.0))
        await engine.start()
        upstream = Upstream(engine, limits=Limits())
        try:
            return await calibrate(upstream, MODEL)
        finally:
            await upstream.close()
            await engine.stop()

    usage = run_async(scene())
    assert usage is not None
    assert usage.output_tokens == OUTPUT_TOKENS
    assert usage.prompt_tokens
    assert usage.prefill_s
    assert usage.decode_s
    assert usage.prompt_tokens / usage.prefill_s == pytest.approx(2000.0, rel=0.1)
    assert OUTPUT_TOKENS / usage.decode_s == pytest.approx(200.0, rel=0.1)


def test_it_asks_once_for_a_fixed_length_past_every_cache() -> None:
    """One request that no earlier one makes faster, and whose length the model cannot choose."""
    usage, engine = measured(json_reply(SAID))
    assert usage is not None
    assert (usage.prefill_s, usage.decode_s) == pytest.approx((0.2, 0.48))
    (request,) = engine.requests
    body = request.json()
    assert (body["max_tokens"], body["ignore_eos"], body["cache_prompt"]) == (OUTPUT_TOKENS, True, False)
    assert (request.path, body["model"]) == ("/v1/chat/completions", MODEL)


@pytest.mark.parametrize(
    "script",
    [
        json_reply({"error": "busy"}, 503),
        json_reply({key: value for key, value in SAID.items() if key != "timings"}),
        json_reply(SAID | {"timings": {"prompt_n": 0, "prompt_ms": 0, "predicted_n": 0, "predicted_ms": 0}}),
        raw(b"nonsense\r\n\r\n", then="close"),
        raw(b"", then="reset"),
        raw(head(200, ("Content-Length", "99")) + b"{", then="close"),
    ],
)
def test_an_engine_that_does_not_answer_as_it_should_is_not_measured(script: Script) -> None:
    """None, and no error: the engine is used with a guess until its replies teach better."""
    assert measured(script)[0] is None


def test_an_engine_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A calibration is bounded."""
    monkeypatch.setattr(calibrate_module, "TIMEOUT_S", 0.1)
    usage, engine = measured(raw(then="hang"))
    assert usage is None
    assert engine.open_connections == 0


def alone_at(rate: float) -> Usage:
    """What calibrate() says of an engine that writes ``rate`` tokens/s."""
    return Usage(output_tokens=OUTPUT_TOKENS, decode_s=OUTPUT_TOKENS / rate)


def measured_company(script: Script, slots: int, rate: float) -> tuple[tuple[Usage, int] | None, FakeEngine]:
    """Calibrate an engine with this script in company."""

    async def scene() -> tuple[tuple[Usage, int] | None, FakeEngine]:
        async with FakeEngine(script) as engine:
            upstream = Upstream(engine, limits=Limits())
            try:
                return await calibrate_company(upstream, MODEL, slots, alone_at(rate)), engine
            finally:
                await upstream.close()

    return run_async(scene())


def test_it_measures_how_requests_slow_each_other() -> None:
    """As many as there are slots run at once, each at the part of the rate that the engine was set to."""

    async def scene() -> tuple[tuple[Usage, int] | None, PacedEngine]:
        engine = PacedEngine(PacedSettings(prefill=2000.0, decode=200.0, beta=0.5), slots=4)
        await engine.start()
        upstream = Upstream(engine, limits=Limits())
        try:
            return await calibrate_company(upstream, MODEL, 4, alone_at(200.0)), engine
        finally:
            await upstream.close()
            await engine.stop()

    found, engine = run_async(scene())
    assert found is not None
    usage, company = found
    assert (company, usage.output_tokens) == (4, 4 * COMPANY_TOKENS)
    assert (engine.gpu.slots.max_in_flight, engine.gpu.slots.ever_waited) == (4, 0)
    assert usage.output_tokens
    assert usage.decode_s
    share = Rates(prefill=2000.0, decode=200.0, beta=0.5).share(4)
    assert usage.output_tokens / usage.decode_s == pytest.approx(200.0 * share, rel=0.1)


@pytest.mark.parametrize(
    ("slots", "rate", "company"), [(2, 80.0, 2), (16, 80.0, 7), (16, 500.0, MOST_COMPANY), (4, 24.0, 2)]
)
def test_a_slow_engine_gets_fewer_at_once(slots: int, rate: float, company: int) -> None:
    """Even an engine that does one after the other is done within the time that a start may take."""
    found, engine = measured_company(json_reply(SAID), slots, rate)
    assert found is not None
    assert (found[1], len(engine.requests)) == (company, company)
    assert len({request.body for request in engine.requests}) == company, "no prompt is that of another"


@pytest.mark.parametrize(("slots", "rate"), [(1, 500.0), (4, 20.0)])
def test_one_alone_has_no_company(slots: int, rate: float) -> None:
    """With one slot, or no time for two, nothing is asked."""
    found, engine = measured_company(json_reply(SAID), slots, rate)
    assert (found, engine.requests) == (None, [])


def test_a_company_of_which_one_was_refused_is_not_measured() -> None:
    """The others were fewer than was thought."""
    assert measured_company(json_reply({"error": "busy"}, 503), 4, 500.0)[0] is None
