import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairproxy.core.dialects.translate_json import field, objects, read_object, write_json
from pairproxy.core.errors import BadRequest

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"  \n",
        b"null",
        b"[]",
        b'"text"',
        b'{"model":"m"',
        b'{"model":"m"} x',
        b'{"model":"m"}{"model":"m"}',
        b'\xef\xbb\xbf{"model":"m"}',
        '{"model":"m"}'.encode("utf-16"),
        b'{"model":"\xff"}',
        b'{"x":NaN}',
        b'{"x":-Infinity}',
        b'{"x":' + b"9" * 5000 + b"}",
        b'{"x":' + b"[" * 100_000,
        b'{"x":' + b'{"x":' * 100_000,
    ],
    ids=lambda body: repr(body[:24]),
)
def test_what_is_not_one_json_object_is_refused_with_a_sentence(body: bytes) -> None:
    """Anything but one strict JSON object in UTF-8 is a BadRequest, never another exception."""
    with pytest.raises(BadRequest) as refused:
        read_object(body)
    assert refused.value.status == 400
    assert "Error" not in refused.value.sentence


def test_an_empty_body_is_called_missing() -> None:
    """Ollama's words for an empty body."""
    with pytest.raises(BadRequest, match=r"^missing request body$"):
        read_object(b"")


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_an_object_survives_reading_and_writing(value: dict[str, object]) -> None:
    """Reading what was written gives the same value."""
    assert read_object(write_json(value)) == value


def test_half_a_surrogate_pair_becomes_the_replacement_character() -> None:
    """A lone surrogate is legal JSON but no UTF-8, so it is replaced and the rest is kept."""
    value = read_object(rb'{"prompt":"a\ud800b\ud83d\ude00"}')
    assert json.loads(write_json(value)) == {"prompt": "a\ufffdb\U0001f600"}


def test_a_number_that_overflows_is_refused() -> None:
    """1e999 reads as infinity, which no JSON can say again."""
    with pytest.raises(BadRequest, match="too large"):
        write_json(read_object(b'{"x":1e999}'))


def test_a_field_has_its_type_or_is_absent() -> None:
    """Null is absence; true is no integer; a wrong type names the field."""
    body = {"a": None, "n": 3, "b": True}
    assert field(body, "a", str) is None
    assert field(body, "missing", str) is None
    assert field(body, "n", int) == 3
    with pytest.raises(BadRequest, match='"b" must be an integer'):
        field(body, "b", int)


@pytest.mark.parametrize("value", ["x", {"a": 1}, [1], [None], 3])
def test_a_list_of_objects_is_nothing_else(value: object) -> None:
    """Strings, objects and lists of other things are refused by name."""
    with pytest.raises(BadRequest, match='"messages"'):
        objects(value, "messages")


def test_an_absent_list_is_empty() -> None:
    """Null and absence are the empty list."""
    assert objects(None, "tools") == []
