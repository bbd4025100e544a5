import math

import pytest

from pairproxy.core.costs import PRIORS
from pairproxy.core.dialects.meter import Meter
from pairproxy.core.models import Dialect, Rates, Usage
from pairproxy.core.nodes import NodeTable
from pairproxy.core.prefill_rate import CONFIRMS_TIMES
from pairproxy.core.speeds import LESSONS_PER_S, MIN_DECODE_TOKENS, Speed
from pairproxy.core.timing import Timing
from tests.core.told import B, M, document

PRIOR = PRIORS["ollama"]


def learned(*usages: Usage, ttft_s: float = 0.0, is_cold: bool = False) -> Speed:
    """What is known after these."""
    speed = Speed()
    for usage in usages:
        speed.learn(usage, Timing(ttft_s), PRIOR, is_cold=is_cold)
    return speed


def prefill(speed: Speed) -> float:
    """The rate at which prompts are read, as known."""
    return speed.rates(PRIOR).prefill


def test_a_short_prompt_counts_for_less() -> None:
    """It is dominated by fixed costs."""
    speed = learned(Usage(prompt_tokens=2560), ttft_s=1.0)
    speed.learn(Usage(prompt_tokens=32), Timing(1.0), PRIOR, is_cold=False)
    assert prefill(speed) > 0.85 * 2560


def test_a_prompt_that_comes_again_is_not_taken_for_speed() -> None:
    """Who does not say what was cached teaches a slower rate or the same, never a faster one."""
    speed = learned(Usage(prompt_tokens=1000, prefill_s=1.0))
    for _ in range(25):
        speed.learn(Usage(prompt_tokens=1000, prefill_s=0.006), Timing(), PRIOR, is_cold=False)
        speed.learn(Usage(prompt_tokens=1000), Timing(0.006), PRIOR, is_cold=False)
    assert prefill(speed) == pytest.approx(1000.0)
    speed.learn(Usage(prompt_tokens=1000, prefill_s=2.0), Timing(), PRIOR, is_cold=False)
    assert prefill(speed) == pytest.approx(1000 * 0.5**0.2)


def test_an_engine_is_found_to_be_faster_by_a_prompt_that_it_cannot_have_had() -> None:
    """That leaves nothing open."""
    speed = learned(Usage(prompt_tokens=1000, prefill_s=1.0))
    for _ in range(30):
        speed.learn(Usage(prompt_tokens=1000, prefill_s=0.25), Timing(), PRIOR, is_cold=True)
    assert prefill(speed) == pytest.approx(4000.0, rel=0.01)


def test_partly_cached_prompts_do_not_creep_up() -> None:
    """Each confirms, together they raise by no more than the noise of one."""
    speed = learned(Usage(prompt_tokens=1000, prefill_s=1.0))
    for _ in range(200):
        usage = Usage(prompt_tokens=1000, prefill_s=1000 / (1.1 * prefill(speed)))
        speed.learn(usage, Timing(), PRIOR, is_cold=False)
    assert prefill(speed) <= 1000 * CONFIRMS_TIMES * 1.001


def test_one_slow_reply_does_not_hold_a_rate_down_for_good() -> None:
    """What was measured before is still believed, and so is a first rate below the prior's."""
    speed = learned(
        Usage(prompt_tokens=1000, prefill_s=1.0), *[Usage(prompt_tokens=1000, prefill_s=30.0)] * 5
    )
    assert prefill(speed) < 600.0
    slow_first = learned(Usage(prompt_tokens=1000, prefill_s=30.0))
    for _ in range(60):
        speed.learn(Usage(prompt_tokens=1000, prefill_s=1.0), Timing(), PRIOR, is_cold=False)
        slow_first.learn(Usage(prompt_tokens=1000, prefill_s=2.0), Timing(), PRIOR, is_cold=False)
    assert prefill(speed) == pytest.approx(1000.0, rel=0.01)
    assert prefill(slow_first) == pytest.approx(500.0, rel=0.01)


def test_a_first_rate_beyond_belief_is_no_measurement() -> None:
    """A daemon that was restarted meets an engine that has the prompt already."""
    speed = learned(Usage(prompt_tokens=1117, prefill_s=0.006))
    assert prefill(speed) == PRIOR.prefill
    speed.learn(Usage(prompt_tokens=1000, prefill_s=0.2), Timing(), PRIOR, is_cold=False)
    assert prefill(speed) == pytest.approx(5000.0)


def test_what_leaves_nothing_open_replaces_what_did() -> None:
    """A reply that says what was cached, if it read enough; a handful of tokens only counts a little."""
    speed = learned(Usage(prompt_tokens=1000, prefill_s=0.125))
    speed.learn(Usage(prompt_tokens=1000, cached_tokens=984, prefill_s=0.1), Timing(), PRIOR, is_cold=False)
    assert prefill(speed) > 7000.0
    speed.learn(Usage(prompt_tokens=200, cached_tokens=100, prefill_s=0.2), Timing(), PRIOR, is_cold=False)
    assert prefill(speed) == pytest.approx(500.0)
    speed.learn(Usage(prompt_tokens=1000, prefill_s=0.006), Timing(), PRIOR, is_cold=False)
    assert prefill(speed) == pytest.approx(500.0)
    speed.learn(Usage(prompt_tokens=1000, cached_tokens=0, prefill_s=1.0), Timing(), PRIOR, is_cold=False)
    assert prefill(speed) == pytest.approx(500 * 2**0.2)


def test_the_cached_part_of_a_prompt_is_not_read() -> None:
    """Only the rest is what the seconds were spent on."""
    assert prefill(learned(Usage(prompt_tokens=1000, cached_tokens=900, prefill_s=0.1))) == pytest.approx(
        1000.0
    )


def test_prompts_that_are_read_at_once_share_the_machine() -> None:
    """Four that come at once take four times as long each; the rate is the machine's."""
    speed = Speed()
    speed.learn(Usage(1000, 0, None), Timing(4.0, own_part=0.25), PRIOR, is_cold=False)
    assert prefill(speed) == pytest.approx(1000.0)


@pytest.mark.parametrize(
    "usage",
    [
        Usage(),
        Usage(prompt_tokens=8, output_tokens=MIN_DECODE_TOKENS - 1),
        Usage(prompt_tokens=100, cached_tokens=100),
    ],
)
def test_what_says_too_little_teaches_nothing(usage: Usage) -> None:
    """A handful of tokens says more about the clock than about the engine."""
    speed = Speed()
    speed.learn(usage, Timing(1.0, company_s={1: 1.0}), PRIOR, is_cold=False)
    assert speed.rates(PRIOR) == PRIOR


def test_seconds_that_are_not_known_teach_nothing() -> None:
    """Zero is no measurement."""
    assert learned(Usage(1000, None, 1000)).rates(PRIOR) == PRIOR


def test_decoding_is_learned_with_the_company_it_had() -> None:
    """The engine's own time counts, and the company that was seen; the first reply sets the rate."""
    prior = Rates(500.0, 30.0, 0.5)
    speed = Speed()
    speed.learn(Usage(output_tokens=100), Timing(company_s={3: 4.0}), prior, is_cold=False)
    assert speed.rates(prior).decode == pytest.approx(50.0, rel=0.02)
    told = Speed()
    told.learn(Usage(output_tokens=100, decode_s=2.0), Timing(company_s={3: 4.0}), prior, is_cold=False)
    assert told.rates(prior).decode == pytest.approx(100.0, rel=0.02)


def test_load_times_are_learned_when_a_model_was_loaded() -> None:
    """Milliseconds are bookkeeping."""
    assert learned(Usage(load_s=0.02)).rates(PRIOR).load_s == PRIOR.load_s
    assert learned(Usage(load_s=9.0)).rates(PRIOR).load_s == pytest.approx(9.0)


def test_what_is_kept_goes_on_where_it_was() -> None:
    """What was proven stays so: a cached prompt does not raise it."""
    speed = learned(Usage(1000, 0, 100, 0.5, 2.0, 7.0))
    again = Speed.of(speed.facts())
    assert (again.rates(PRIOR).prefill, again.rates(PRIOR).load_s) == pytest.approx((2000.0, 7.0))
    assert again.rates(PRIOR).decode == pytest.approx(speed.rates(PRIOR).decode, rel=0.001)
    again.learn(Usage(1000, prefill_s=0.01), Timing(), PRIOR, is_cold=False)
    assert prefill(again) == pytest.approx(2000.0)
    nothing = Speed().facts()
    assert (nothing.prefill, nothing.decode, nothing.load) == (None, None, None)
    assert math.isclose(prefill(Speed.of(nothing)), PRIOR.prefill)


def test_a_reply_is_slow_only_against_others_like_it() -> None:
    """Not before there were a few; not for a prompt longer than usual, nor for a handful of tokens."""
    speed = Speed()
    half, usual = Usage(100, 0, 100, 0.1, 4.0), Usage(100, 0, 100, 0.1, 2.0)
    parts = [speed.learn(usual, Timing(), PRIOR, is_cold=False) for _ in range(10)]
    assert parts == [None] * 5 + [pytest.approx(1.0)] * 5
    assert speed.learn(half, Timing(), PRIOR, is_cold=False) == pytest.approx(0.5)
    for others in (Usage(300, 0, 100, 0.1, 4.0), Usage(100, 0, 20, 0.1, 0.8), Usage(100, 0, 100, 0.1)):
        assert speed.learn(others, Timing(), PRIOR, is_cold=False) is None


def test_more_replies_than_teach_anything_new_do_not_teach() -> None:
    """The first of each second do: a machine that answers a thousand times a second is known by them."""
    speed = Speed()
    taught = [number for number in range(1000) if speed.may_learn(5.0 + number / 500)]
    assert taught == [*range(LESSONS_PER_S), *range(500, 500 + LESSONS_PER_S)]


def test_seconds_in_the_wrong_unit_make_no_speed_that_nobody_believes() -> None:
    """An engine that tells nanoseconds as seconds is fast, and still kept and believed by peers."""
    speed = learned(Usage(1000, 0, 100, 3e-9, 5e-9), Usage(1000, 0, 100, 3e-9, 5e-9))
    rates = speed.rates(PRIOR)
    assert speed.facts().is_possible
    nodes = NodeTable()
    nodes.report(document(B, rates=rates), 0.0)
    assert [state.rates for _, _, state in nodes.replicas(M)] == [rates]


def test_what_is_thought_to_be_cold_must_be_plausible() -> None:
    """An index that was begun after its engine may be wrong: a hundred times the prior is a cached prompt."""
    speed = learned(Usage(prompt_tokens=1000, prefill_s=0.01), is_cold=True)
    assert prefill(speed) == PRIOR.prefill


OLLAMA = (
    b'{"model":"m","message":{"role":"assistant","content":"","thinking":"hm"},"done":false}\n'
    * 40
    + b'{"model":"m","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop",'
    b'"total_duration":9000000000,"load_duration":LOAD,"prompt_eval_count":1000,'
    b'"prompt_eval_duration":2000000000,"eval_count":100,"eval_duration":2000000000}\n'
)
DELTA = b'data: {"choices":[{"index":0,"delta":{"KEY":"a"}}]}\n\n'
USAGE = (
    b'data: {"choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":100DETAILS}}\n\ndata: [DONE]\n\n'
)
LLAMA = (
    b'{"choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":100,'
    b'"prompt_tokens_details":{"cached_tokens":600}},"timings":{"cache_n":600,"prompt_n":400,"prompt_ms":400.0,'
    b'"predicted_n":100,"predicted_ms":1000.0}}'
)
ANTHROPIC = (
    b'event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":7}}}\n\n'
    + b'event: content_block_delta\ndata: {"type":"content_block_delta"}\n\n' * 100
    + b'event: message_delta\ndata: {"type":"message_delta",'
    b'"usage":{"input_tokens":1000,"output_tokens":100}}\n\n'
    b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
)
LM_STUDIO = (
    b'{"choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":100},'
    b'"stats":{"tokens_per_second":50.0,"time_to_first_token":2.0,"generation_time":2.0}}'
)
SEEN = Timing(2.5, company_s={1: 2.5})
KNOWN = (400.0, 40.0)  # what is read off the clock: tokens over the seconds of SEEN


@pytest.mark.parametrize(
    ("dialect", "body", "timing", "rates", "is_proof"),
    [
        pytest.param(
            Dialect.OLLAMA, OLLAMA.replace(b"LOAD", b"9000000"), SEEN, (500.0, 50.0), False, id="ollama"
        ),
        pytest.param(
            Dialect.OLLAMA,
            OLLAMA.replace(b'"prompt_eval_count":1000,"prompt_eval_duration":2000000000,', b""),
            SEEN,
            (PRIOR.prefill, 50.0),
            False,
            id="ollama leaves out what is zero",
        ),
        pytest.param(Dialect.OPENAI, LLAMA, Timing(), (1000.0, 100.0), True, id="llama-server, in one piece"),
        pytest.param(
            Dialect.OPENAI,
            DELTA * 100 + b"data: " + LLAMA + b"\n\ndata: [DONE]\n\n",
            SEEN,
            (1000.0, 100.0),
            True,
            id="llama-server, streamed",
        ),
        pytest.param(
            Dialect.OPENAI,
            DELTA.replace(b"KEY", b"reasoning_content") * 100 + USAGE.replace(b"DETAILS", b""),
            SEEN,
            KNOWN,
            False,
            id="ollama's /v1, which tells no seconds",
        ),
        pytest.param(
            Dialect.OPENAI,
            DELTA * 50 + USAGE.replace(b"DETAILS", b',"prompt_tokens_details":{"cached_tokens":500}'),
            SEEN,
            (200.0, 40.0),
            True,
            id="vLLM, which tells what was cached",
        ),
        pytest.param(
            Dialect.OPENAI,
            DELTA * 50 + USAGE.replace(b"DETAILS", b',"prompt_tokens_details":null'),
            SEEN,
            KNOWN,
            False,
            id="vLLM, which does not",
        ),
        pytest.param(
            Dialect.OPENAI,
            DELTA * 100 + DELTA + b"data: [DONE]\n\n",
            SEEN,
            (PRIOR.prefill, 40.0),
            False,
            id="usage was not asked for: tokens are counted, the prompt is not",
        ),
        pytest.param(
            Dialect.ANTHROPIC, ANTHROPIC, SEEN, KNOWN, False, id="anthropic, whose first count is a guess"
        ),
        pytest.param(Dialect.OPENAI, LM_STUDIO, Timing(), (500.0, 50.0), False, id="LM Studio's stats"),
    ],
)
def test_what_a_real_reply_teaches(
    dialect: Dialect, body: bytes, timing: Timing, rates: tuple[float, float], is_proof: bool
) -> None:
    """Its own seconds where it tells them, else our clock's; proof only where it tells what was cached."""
    meter = Meter(dialect, is_streaming=body.count(b"\n") > 2, status=200)
    meter.feed(body)
    speed = Speed()
    speed.learn(meter.usage(), timing, PRIOR, is_cold=False)
    found = speed.rates(PRIOR)
    assert (found.prefill, found.decode) == pytest.approx(rates, rel=0.01)
    assert speed.prefill.is_proven is is_proof
