import pytest

from pairproxy.config import Limits, PacedSettings
from pairproxy.core.models import ModelName, Usage
from pairproxy.engines import calibrate as calibrate_module
from pairproxy.engines.calibrate import OUTPUT_TOKENS, calibrate
from pairproxy.engines.paced import PacedEngine
from pairproxy.upstreams import Upstream
from tests.support.engine_scripts import head, json_reply, raw
from tests.support.fake_engine import FakeEngine, Script
from tests.support.running import run_async

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
