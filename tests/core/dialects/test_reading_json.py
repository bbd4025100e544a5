import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pairproxy.core.dialects.reading_json import (
    KEYS as READ,
)
from pairproxy.core.dialects.reading_json import (
    MOST_KEYS,
    MOST_VALUE_BYTES,
    OTHERS,
    Ambiguous,
    is_nothing,
    items_of,
    read_fields,
    text_of,
    value_of,
)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="ascii")),
    lambda one: st.lists(one, max_size=3) | st.dictionaries(st.sampled_from("abc"), one, max_size=3),
    max_leaves=6,
)
KEYS = st.text(st.characters(codec="utf-8", exclude_characters='"\\', exclude_categories=["Cc"]), max_size=6)
SPACE = st.text(" \t\r\n", max_size=2)


def raw(text: bytes) -> msgspec.Raw:
    """A value as it is found in an object."""
    return read_fields(b'{"x":' + text + b"}")["x"]


@settings(deadline=None)
@given(pairs=st.lists(st.tuples(KEYS, VALUES), max_size=5), space=st.lists(SPACE, min_size=4, max_size=4))
def test_an_object_is_read_if_no_key_stands_there_twice(
    pairs: list[tuple[str, object]], space: list[str]
) -> None:
    """Whatever spaces stand between; a key that is ours but for its case counts as ours."""
    one, two, three, four = space
    inner = ",".join(
        f"{two}{json.dumps(k, ensure_ascii=False)}{one}:{three}{json.dumps(v)}{four}" for k, v in pairs
    )
    text = f"{one}{{{two}{inner}}}{four}".encode()
    keys = [key for key, _ in pairs]
    if len(set(keys)) == len(keys):
        fields = read_fields(text)
        assert {key: json.loads(bytes(value)) for key, value in fields.items()} == dict(pairs)
    else:
        with pytest.raises(Ambiguous):
            read_fields(text)


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":1,"a":1}', b'{"a":{"b":1},"a":{"b":1}}', b'{"a":1,"b":2,"a":1}', b'{"a":"1","b":2,"a":"123"}',
        b'{"a":"x\\",\\"b\\":2}","a":"y","b":2}', b'{"\\u0061":1}', b'{"MODEL":1}', b'{"Options":{}}',
        '{"\u212aeep_alive":0}'.encode(),
    ],
)  # fmt: skip
def test_there_is_one_way_to_read_it_or_none(text: bytes) -> None:
    """Twice, escaped, or another case: also letters that Go takes for ours."""
    with pytest.raises(Ambiguous):
        read_fields(text)


@settings(deadline=None)
@given(pairs=st.lists(st.tuples(KEYS | st.just("e\u0301"), VALUES), max_size=4), is_escaped=st.booleans())
def test_an_object_without_spaces_is_read_alike(pairs: list[tuple[str, object]], is_escaped: bool) -> None:
    """Its length tells whether there is another key, or one with escapes."""
    named = ((json.dumps(key, ensure_ascii=is_escaped), json.dumps(value)) for key, value in pairs)
    text = "{" + ",".join(f"{key}:{value}" for key, value in named) + "}"
    keys = [key for key, _ in pairs]
    if len(set(keys)) == len(keys) and (not is_escaped or "".join(keys).isascii()):
        fields = read_fields(text.encode())
        assert list(fields) == keys
    else:
        with pytest.raises(Ambiguous):
            read_fields(text.encode())


@settings(deadline=None)
@given(pairs=st.lists(st.tuples(KEYS | st.sampled_from(['a"', "a\\", 'a": 1, "b']), VALUES), max_size=4))
def test_an_object_as_python_writes_it_is_read_alike(pairs: list[tuple[str, object]]) -> None:
    """With a space behind each comma and colon; not if a key stands there twice, or with escapes."""
    named = [(json.dumps(key, ensure_ascii=False), json.dumps(value)) for key, value in pairs]
    text = "{" + ", ".join(f"{key}: {value}" for key, value in named) + "}"
    keys = [key for key, _ in pairs]
    if len(set(keys)) == len(keys) and "\\" not in "".join(key for key, _ in named):
        assert list(read_fields(text.encode())) == keys
    else:
        with pytest.raises(Ambiguous):
            read_fields(text.encode())


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b'{"a":1}x', b"nonsense"])
def test_what_is_no_object_is_not_read(text: bytes) -> None:
    """The reader says so."""
    with pytest.raises(msgspec.DecodeError):
        read_fields(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"null", True), (b'""', True), (b"[]", True), (b"{ }", True), (b"[\n]", True), (b"false", True),
        (b"0", False), (b'" "', False), (b"[0]", False), (b"true", False), (b"[[]]", False),
    ],
)  # fmt: skip
def test_nothing_is_absent_or_empty(text: bytes, expected: bool) -> None:
    """A number is something, also zero."""
    assert is_nothing(raw(text)) is expected
    assert is_nothing(None)


def test_what_is_read_nowhere_is_told_from_what_is_read() -> None:
    """Also but for its case."""
    assert READ.isdisjoint(one.casefold() for one in OTHERS)


def test_values_have_their_kind() -> None:
    """A text is one or None; items are those of a list."""
    assert (text_of(raw(b'"a"')), text_of(raw(b"null")), text_of(None)) == ("a", None, None)
    with pytest.raises(msgspec.DecodeError):
        text_of(raw(b"7"))
    assert [bytes(one) for one in items_of(raw(b'[1, "a"]'))] == [b"1", b'"a"']
    assert items_of(raw(b'"a"')) == items_of(None) == []


def test_an_object_of_very_many_keys_is_not_taken_apart() -> None:
    """A thousand are read; megabytes of tiny ones are refused before they cost seconds of all."""
    few = b"{" + b",".join(b'"k%d":0' % number for number in range(MOST_KEYS)) + b"}"
    assert len(read_fields(few)) == MOST_KEYS
    for count in (MOST_KEYS + 1, 200_000):
        with pytest.raises(Ambiguous):
            read_fields(b"{" + b",".join(b'"k%d":0' % number for number in range(count)) + b"}")


@pytest.mark.parametrize("key", ["messages", "prompt", "tools", "input"])
def test_what_is_read_may_be_large(key: str) -> None:
    """A long prompt, and a large schema beside it, are no crowd of keys."""
    value = json.dumps("x" * 3_000_000)
    assert (
        len(read_fields(f'{{"model":"m","{key}":{value},"format":{json.dumps("y" * 500_000)}}}'.encode()))
        == 3
    )


def test_an_option_is_small() -> None:
    """Millions of numbers in place of one are not made into objects."""
    assert value_of(raw(b'{"effort":"low"}')) == {"effort": "low"}
    with pytest.raises(Ambiguous):
        value_of(raw(b"[" + b"0," * MOST_VALUE_BYTES + b"0]"))
