"""The usage of one reply in several parts."""

from pairproxy.core.dialects.splicing_usage import Spent, ollama_in_all, openai_in_all


def spent(tokens: int = 10) -> Spent:
    """A first part of 2 s of text after 1 s of waiting, and a pause of 3 s."""
    one = Spent(100.0)
    one.saw(101.0)
    one.saw(103.0)
    one.end_part(tokens, 106.0)
    return one


def test_openai_usage_is_that_of_all_parts() -> None:
    """The prompt is the first part's, the reply the sum; the total was right before."""
    used = {"prompt_tokens": 35, "completion_tokens": 5, "total_tokens": 40, "prompt_tokens_details": {}}
    assert openai_in_all({"usage": used}, spent())["usage"] == {
        "prompt_tokens": 25, "completion_tokens": 15, "total_tokens": 40, "prompt_tokens_details": {},
    }  # fmt: skip
    assert openai_in_all({"usage": None}, spent()) == {"usage": None}


def test_llama_cpps_timings_tell_of_all_that_was_written() -> None:
    """Tokens and milliseconds of writing are summed, and the speed is what comes of both."""
    times = {"prompt_n": 3, "predicted_n": 5, "predicted_ms": 500.0, "predicted_per_second": 10.0}
    found = openai_in_all({"timings": times}, spent())["timings"]
    assert (found["predicted_n"], found["predicted_ms"], found["prompt_n"]) == (15, 2500.0, 3)
    assert found["predicted_per_second"] == 6.0


def test_ollamas_last_record_tells_of_all_parts() -> None:
    """Counts and durations (nanoseconds) are summed; the pause counts in the total only."""
    last = {"prompt_eval_count": 35, "eval_count": 5, "eval_duration": 10**9, "total_duration": 2 * 10**9}
    assert ollama_in_all({**last, "done": True}, spent()) == {
        "prompt_eval_count": 25, "eval_count": 15, "eval_duration": 3 * 10**9, "total_duration": 8 * 10**9,
        "done": True,
    }  # fmt: skip
    assert ollama_in_all({"done": True}, spent()) == {"done": True}


def test_three_parts_add_up() -> None:
    """The time of each part that wrote counts once."""
    one = spent(4)
    one.end_part(4, 107.0)
    one.saw(108.0)
    one.saw(109.0)
    one.end_part(9, 110.0)
    assert (one.tokens, one.decode_s, one.total_s) == (9, 3.0, 10.0)
