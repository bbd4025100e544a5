import pytest

from pairproxy.core.dialects.meter_fields import Numbers, counts_of, keys_of, usage_of
from pairproxy.core.models import Dialect, Usage


def test_the_last_number_of_a_key_counts() -> None:
    """A null or an object of that name is none."""
    numbers = Numbers(b'{"n":1,"n": 2 ,"n":null,"n":{"m":3}}', keys_of({"": "n m none"}))
    assert numbers.count("n") == 2
    assert numbers.count("m") == 3
    assert numbers.count("none") is None


def test_a_search_ends() -> None:
    """A key that stands there a thousand times without a number is given up."""
    assert Numbers(b'"n":7,' + b'"n":null,' * 1000, keys_of({"": "n"})).count("n") is None


@pytest.mark.parametrize("written", [b"-1", b"1e99", b"1e999", b"1e", b"--", b"true", b'"7"', b""])
def test_what_cannot_be_is_not_known(written: bytes) -> None:
    """Neither as a count nor as a duration."""
    numbers = Numbers(b'{"n":' + written + b"}", keys_of({"": "n"}))
    assert numbers.count("n") is None
    assert numbers.seconds("n") is None


def test_a_duration_has_its_units() -> None:
    """A key that is not there has none."""
    numbers = Numbers(b'{"a_ns":2e9,"b_ms":500}', keys_of({"": "a_ns b_ms none"}))
    assert numbers.seconds("a_ns", 1e9) == 2.0
    assert numbers.seconds("b_ms", 1e3) == 0.5
    assert numbers.seconds("none", 1e9) is None


def test_the_first_key_that_is_there_counts() -> None:
    """OpenAI's usage before llama-server's timings, and these before what its own paths say."""
    timings = b'{"timings":{"cache_n":3,"prompt_n":4,"predicted_n":5,"prompt_ms":500}}'
    assert usage_of(Dialect.OPENAI, timings) == Usage(7, 3, 5, 0.5)
    assert usage_of(Dialect.OPENAI, b'{"completion_tokens":6,' + timings[1:]) == Usage(7, 3, 6, 0.5)
    own = b'{"tokens_evaluated":8,"tokens_predicted":9}'
    assert usage_of(Dialect.LLAMACPP, own) == Usage(8, None, 9)
    studio = b'{"cached_tokens":1,"time_to_first_token":0.25,"generation_time":2}'
    assert usage_of(Dialect.OPENAI, studio) == Usage(None, 1, None, 0.25, 2.0)


@pytest.mark.parametrize("dialect", Dialect)
def test_every_dialect_is_read(dialect: Dialect) -> None:
    """And says nothing of what it does not know."""
    assert usage_of(dialect, b"{}", b"") == Usage()


def test_anthropic_counts_cached_parts_apart() -> None:
    """All of the prompt is their sum; what the end says corrects the beginning."""
    start = b'{"usage":{"input_tokens":5,"cache_read_input_tokens":16,"cache_creation_input_tokens":4}}'
    assert usage_of(Dialect.ANTHROPIC, b'{"output_tokens":7}', start) == Usage(25, 16, 7)
    end = b'{"input_tokens":9,"output_tokens":7}'
    assert usage_of(Dialect.ANTHROPIC, end, start) == Usage(29, 16, 7)


@pytest.mark.parametrize(
    "body",
    [
        b'{"usage":{"prompt_tokens":26,"completion_tokens":40,"total_tokens":66}}',
        b'{"usage":{"prompt_tokens":26,"completion_tokens":40,"prompt_tokens_details":{"cached_tokens":16}}}',
        b'{"usage":{"prompt_tokens":26,"completion_tokens":40,"prompt_tokens_details":null}, "x":[{"y":1}]}',
        b'{"usage":{"prompt_tokens":2.0,"completion_tokens":-1},"choices":[{"message":{"content":"a"}}]}',
        b'{"usage":{"prompt_tokens":1e99,"completion_tokens":99999999999999999999999999}} \n',
        b'{"usage":{"prompt_tokens":26,"completion_tokens":40},"usage":{"prompt_tokens":1,"completion_tokens":2}}',
    ],
)
def test_a_whole_document_says_what_its_text_says(body: bytes) -> None:
    """It is only taken apart in another way."""
    assert counts_of(body) == usage_of(Dialect.OPENAI, body)


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[]", b'{"usage":null}', b'{"usage":{"prompt_tokens":26}}', b'{"usage":{"prompt_tokens":2',
        b'{"usage":{"prompt_tokens":"26","completion_tokens":40}}', b'{"usage":[]}', b"\xff",
        b'{"usage":{"prompt_tokens":26,"completion_tokens":40},"timings":{"cache_n":1}}',
        b'{"usage":{"prompt_tokens":26,"completion_tokens":40},"stats":{"generation_time":1}}',
        b'{"usage":{"prompt_tokens":26,"completion_tokens":40,"cached_tokens":16}}',
        b'{"usage":{"prompt_tokens":26,"completion_tokens":40,"time_to_first_token":0.25}}',
        b'{"usage":{"prompt_tokens":26,"completion_tokens":40,"generation_time":2}}',
        b'{"usage":' + b"[" * 2000,
    ],
)  # fmt: skip
def test_what_says_more_or_less_than_the_counts_is_searched(body: bytes) -> None:
    """As is what is no JSON, or cut off."""
    assert counts_of(body) is None
