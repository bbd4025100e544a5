import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairproxy.core.dialects.rename import renamed, replaced

ANY_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8) | st.just("model"), inner)
    ),
    max_leaves=12,
)
OTHER_KEYS = st.text(max_size=8).filter(lambda key: key.lower() != "model")
NAMES = st.text(min_size=1, max_size=20)
SPACE = st.text(alphabet=" \t\r\n", max_size=3)


@given(st.dictionaries(OTHER_KEYS, ANY_JSON, max_size=4), NAMES, NAMES, st.booleans(), SPACE, st.data())
def test_nothing_but_the_name_changes(
    others: dict[str, object], old: str, new: str, is_ascii: bool, space: str, data: st.DataObject
) -> None:
    """Whatever stands around it, in whatever order and spelling: the bytes before and after it stay."""
    pairs = [
        f"{space}{json.dumps(key, ensure_ascii=is_ascii)}:{space}{json.dumps(value, ensure_ascii=is_ascii)}"
        for key, value in others.items()
    ]
    place = data.draw(st.integers(0, len(pairs)))
    key = data.draw(st.sampled_from(['"model"', '"mod\\u0065l"']))
    before = "{" + "".join(f"{pair}," for pair in pairs[:place]) + f"{space}{key}{space}:{space}"
    after = space + "".join(f",{pair}" for pair in pairs[place:]) + space + "}"
    body = (before + json.dumps(old, ensure_ascii=is_ascii) + after).encode()
    changed = renamed(body, new)
    assert changed == before.encode() + json.dumps(new).encode() + after.encode()
    assert json.loads(changed) == {**others, "model": new}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b'"model"',
        b'{"model": "a"',
        b'{"model": "a"} x',
        b'{"model": null}',
        b'{"model": 7}',
        b'{"model": ["a"]}',
        b'{"model": {"model": "a"}}',
        b'{"model": "a", "model": "a"}',
        b'{"model": "a", "Model": "a"}',
        b'{"MODEL": "a"}',
        b'{"mod\\u0065l": "a", "model": "a"}',
        b'{"messages": [{"model": "a"}], "options": {"model": "a"}}',
        b'\xef\xbb\xbf{"model": "a"}',
        b'{"model": "\xff"}',
        '{"model": "a"}'.encode("utf-16"),
        b"[" * 100_000,
        b'{"a":' * 100_000,
    ],
)
def test_what_can_be_read_in_two_ways_is_left_alone(body: bytes) -> None:
    """Twice the key, none on top, no text in it, or no JSON: the caller sends the body as it is."""
    assert renamed(body, "b") is None


@given(st.binary(max_size=60) | ANY_JSON.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_renamed_or_refused(body: bytes) -> None:
    """Never an exception; and what is renamed says the new name."""
    changed = renamed(body, "new")
    assert changed is None or json.loads(changed)["model"] == "new"


@pytest.mark.parametrize("value", ["-1", "0", "1.5e-3", "true", "null", '"a\\"b"', '""'])
@pytest.mark.parametrize("after", ["", " ", ',"x":[{"k":1}]', ' , "model":"m"'])
def test_any_plain_value_is_replaced(value: str, after: str) -> None:
    """Numbers and words of JSON end where they end."""
    body = '{"a":{"k":1},"k" : %s' + after + "}"
    assert replaced((body % value).encode(), "k", '"new"') == (body % '"new"').encode()


@pytest.mark.parametrize(
    "body",
    [b'{"k":[1]}', b'{"k":{}}', b'{"k":1,"k":1}', b'{"k":1,"K":1}', b'{"K":1}', b'{"k":01}', b'{"k":1'],
)
def test_what_is_no_plain_value_is_not_replaced(body: bytes) -> None:
    """The same refusals as for a name, and nothing with parts of its own."""
    assert replaced(body, "k", "2") is None


def test_names_in_the_text_are_text() -> None:
    """What a message quotes is no key, escaped quotation marks are no end."""
    text = json.dumps('\\" {"model": "x"} [\\').encode()
    body = b'{"messages":[{"content":' + text + b'}],"model":"a","n":[{},[]]}'
    assert renamed(body, 'b"') == body.replace(b'"model":"a"', b'"model":"b\\""')


def test_a_large_body_takes_little_time() -> None:
    """32 MB of an image and a million numbers: seconds would hold up everybody else."""
    numbers = b"1," * 1_000_000 + b"1"
    body = b'{"images":["' + b"A" * 32_000_000 + b'"],"input":[' + numbers + b'],"model":"a"}'
    began = time.process_time()
    changed = renamed(body, "b")
    took = time.process_time() - began
    assert changed == body[:-3] + b'b"}'
    print(f"renamed {len(body) / 1e6:.0f} MB in {took:.3f} s")  # noqa: T201
    assert took < 2.0
