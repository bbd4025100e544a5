import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pairproxy.core.dialects.reading_form import PARTS_LIMIT, VALUE_BYTES, Form, read_form

TYPE = "multipart/form-data; boundary=XX"


def part(name: str, value: bytes, more: str = "", header: str = "Content-Disposition") -> bytes:
    """One field."""
    head = f'--XX\r\n{header}: form-data; name="{name}"{more}\r\nX-Other: 1\r\n\r\n'
    return head.encode() + value + b"\r\n"


MODEL = part("model", b"whisper-1")
SOUND = part("file", b"\0\r\n--X\r\nmodel" * 1000, '; filename="model.mp3"')
END = b"--XX--\r\n"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (MODEL + SOUND + END, Form("whisper-1", False)),
        (SOUND + MODEL + part("stream", b"true") + END, Form("whisper-1", True)),
        (SOUND + part("stream", b"false") + END, Form(None, False)),
        (part("model", b"m", header="content-disposition") + END, Form("m", False)),
        (MODEL + MODEL + END, None),
        (part("model", b"m" * (VALUE_BYTES + 1)) + END, None),
        (MODEL + SOUND, None),
        (MODEL, None),
        (b"", None),
        (b"\r\n" + MODEL + END, None),
        (part("x", b"y") * (PARTS_LIMIT + 1) + MODEL + END, None),
        (part("x", b'name="model"') + END, Form(None, False)),
        (part("x", b"", more='; filename="model"') + END, Form(None, False)),
    ],
)
def test_the_model_is_found_wherever_it_stands(body: bytes, expected: Form | None) -> None:
    """Before or after the sound; a form that names it twice, or is not whole, is none."""
    assert read_form(body, TYPE) == expected


@pytest.mark.parametrize(
    ("content_type", "is_read"),
    [
        (TYPE, True),
        ('Multipart/Form-Data; charset=utf-8; Boundary="XX"', True),
        ("multipart/form-data", False),
        ("application/json; boundary=XX", False),
        ("multipart/form-data; boundary=" + "X" * 71, False),
        ("multipart/form-data; boundary=YY", False),
        ("", False),
    ],
)
def test_the_boundary_is_what_the_header_says(content_type: str, is_read: bool) -> None:
    """Quoted or not, of at most 70 characters."""
    assert (read_form(MODEL + END, content_type) is not None) is is_read


@settings(deadline=None)
@given(body=st.binary(max_size=300))
def test_no_form_is_too_odd(body: bytes) -> None:
    """Only a name that is no text raises."""
    try:
        read_form(b"--XX" + body, TYPE)
        read_form(part("model", body) + END, TYPE)
    except UnicodeDecodeError:
        with pytest.raises(UnicodeDecodeError):
            body.decode()
