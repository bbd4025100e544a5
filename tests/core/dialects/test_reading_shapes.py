import msgspec
import pytest

from pairproxy.core.dialects.reading_shapes import NOTHING, Part, Text, Tool


def test_a_message_is_text_and_nothing_else() -> None:
    """A key more, or a list of parts, and it is none."""
    decode = msgspec.json.Decoder(Text).decode
    assert decode(b'{"content":"b","role":"a"}') == Text("a", "b")
    for other in (b'{"role":"a","content":"b","images":[]}', b'{"role":"a","content":[]}', b'{"role":"a"}'):
        with pytest.raises(msgspec.ValidationError):
            decode(other)


def test_what_is_not_there_is_nothing() -> None:
    """And what is there is kept as it is spelled."""
    part = msgspec.json.decode(b'{"type": "image" , "source": {"a" :1}, "other": 2}', type=Part)
    assert (bytes(part.type), bytes(part.source)) == (b'"image"', b'{"a" :1}')
    assert part.content == part.images == NOTHING
    assert bytes(msgspec.json.decode(b'{"name":"x"}', type=Tool).type) == b""
