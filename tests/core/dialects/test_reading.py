import json
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pairproxy.core.dialects import reading, routes
from pairproxy.core.dialects.reading import read
from pairproxy.core.models import Dialect, ModelName, Request, RequestId

ID = RequestId("r")
PATHS = sorted(routes.INFERENCE)
JSON_PATHS = [path for path in PATHS if not routes.INFERENCE[path].is_form]
CHAT, V1 = "/api/chat", "/v1/chat/completions"
HELLO = [{"role": "user", "content": "hello"}]


def asked(target: str, *, kind: str = "", **body: Any) -> Request:
    """What a body with a model and these fields asks."""
    return read(ID, target, json.dumps({"model": "m", **body}).encode(), kind=kind)


@pytest.mark.parametrize("path", JSON_PATHS)
def test_every_path_is_read(path: str) -> None:
    """The model in its one spelling, the row's words and defaults; other things are as absent."""
    row = routes.INFERENCE[path]
    request = read(ID, f"{path}?beta=true", b'{"model":"registry.ollama.ai/library/Llama3","messages":[1]}')
    stays = "its reply is kept for a later request" if path == "/api/v1/chat" else None
    assert request == Request(
        ID,
        ModelName("llama3:latest"),
        row.dialect,
        path,
        row.streams,
        1,
        None if row.has_output and path != "/api/generate" else 0,
        needs=frozenset({row.need} - {""}),
        stays=stays,
        is_load=path == "/api/generate",
    )


@pytest.mark.parametrize(
    ("target", "stream", "expected"),
    [
        (CHAT, None, True), ("/api/generate", False, False), ("/api/embed", True, False), (V1, None, False),
        ("/v1/completions", True, True), ("/v1/messages", None, False), ("/v1/responses", True, True),
        ("/api/v1/chat", None, False), ("/completion", True, True),
    ],
)  # fmt: skip
def test_a_reply_is_streamed_as_asked_or_as_the_path_does(
    target: str, stream: bool | None, expected: bool
) -> None:
    """Null means the default, as absence does; an embedding never streams."""
    assert asked(target, stream=stream).is_streaming is expected


@pytest.mark.parametrize(
    ("target", "body", "needs"),
    [
        (CHAT, {"tools": []}, ""), (CHAT, {"tools": [{"type": "function"}]}, "tools"),
        (CHAT, {"tools": None}, ""),
        (V1, {"functions": [{}]}, "tools"), ("/api/generate", {"images": ["AAAA"]}, "vision"),
        ("/api/generate", {"prompt": "a", "suffix": "b"}, "insert"), ("/api/generate", {"suffix": ""}, ""),
        ("/infill", {"input_prefix": "a"}, "insert"),
        ("/api/embed", {"input": "a", "think": True}, "embedding"),
        (CHAT, {"think": True}, "thinking"), (CHAT, {"think": "low"}, "thinking"),
        (CHAT, {"think": False}, ""),
        (V1, {"messages": [{"content": [{"type": "input_audio", "input_audio": {}}]}]}, "audio"),
    ],
)  # fmt: skip
def test_a_request_says_what_it_takes_of_a_model(target: str, body: dict[str, Any], needs: str) -> None:
    """In Ollama's words; an empty list is no need."""
    assert asked(target, **body).needs == frozenset(needs.split())


def test_the_prompt_is_measured_without_its_images() -> None:
    """Text by its size, an image by what models make of one."""
    text = [{"role": "user", "content": "x" * 4000}]
    assert asked(V1, messages=text, user="z" * 4000).prompt_tokens == pytest.approx(1000, rel=0.02)
    assert asked(V1, messages=text, tools=["y" * 4000]).prompt_tokens == pytest.approx(2000, rel=0.02)
    image = [{"role": "user", "content": "x" * 4000, "images": ["A" * 10_000_000]}]
    assert asked(CHAT, messages=image).prompt_tokens == pytest.approx(1600, rel=0.02)
    assert asked("/api/generate").prompt_tokens == 1


@pytest.mark.parametrize(
    ("body", "load", "unload"),
    [
        ({}, True, False),
        ({"keep_alive": "5m"}, True, False),
        ({"keep_alive": 0}, False, True),
        ({"keep_alive": 0, "messages": HELLO}, False, False),
        ({"messages": HELLO}, False, False),
    ],
)
def test_a_request_without_a_prompt_is_for_the_memory_only(
    body: dict[str, Any], load: bool, unload: bool
) -> None:
    """It loads the model, or unloads it, and has no output; other dialects have no such thing."""
    request = asked(CHAT, **body)
    assert (request.is_load, request.unloads) == (load, unload)
    assert request.max_output_tokens == (0 if load or unload else None)
    assert not asked(V1, **body).is_load


@pytest.mark.parametrize("keep_alive", [-1, 0, "24h", "5m", 10**400])
def test_no_request_stays_for_what_it_asks_of_the_memory(keep_alive: object) -> None:
    """The node that has the engine bounds it."""
    assert asked(CHAT, messages=HELLO, keep_alive=keep_alive).stays is None
    assert asked(CHAT, keep_alive=keep_alive).stays is None


@pytest.mark.parametrize(
    ("name", "stays"),
    [
        ("gpt-oss:120b-cloud", "its model runs in the vendor's cloud, on this machine's account"),
        ("x:cloud", "its model runs in the vendor's cloud, on this machine's account"),
        ("x:local", "its name says that it runs on this machine"),
        ("cloud-x:1b", None),
        ("../../etc/passwd", None),
        ("http://169.254.169.254/x", None),
    ],
)
def test_a_name_may_say_where_its_model_runs(name: str, stays: str | None) -> None:
    """It is known all the same; a name that nobody lists goes to the called engine anyway."""
    request = read(ID, CHAT, json.dumps({"model": name, "messages": HELLO}).encode())
    assert request.stays == stays
    assert request.model


def test_a_request_says_what_is_known_beside_its_body() -> None:
    """As its port says it; a body's own reason to stay comes first."""
    told = read(ID, CHAT, b'{"model":"m"}', client="c", run="a run", local_only=True, stays="so")
    assert (told.client, told.run, told.local_only, told.stays) == ("c", "a run", True, "so")
    assert read(ID, CHAT, b"{", client="c", stays="so").stays == reading.UNREADABLE


BROKEN = [
    b"", b"[]", b"null", b"{", b'{"model":7}', b'{"model":"m","stream":"yes"}', b'{"model":"m\xff"}',
    b"\x1f\x8b\x08", b'{"model":"m","x":NaN}', b'\xef\xbb\xbf{"model":"m"}', '{"model":"m"}'.encode("utf-16"),
    b'{"model":"m"} x', b'{"model":"m"}{"model":"m"}', b'{"model":"m"', b'{"model":"m","prompt":"\\ud800"}',
    b'{"model":"m","x":' + b"[" * 100_000 + b"}",
]  # fmt: skip
DOUBLE = [
    b'{"model":"a","model":"b"}', b'{"model":"a","model":"a"}', b'{"model":"a","MODEL":"b"}',
    b'{"Model":"m"}',
    b'{"model":"a","\\u006dodel":"b"}', b'{"\\u006dodel":"b"}', b'{"model":"m","messages":[],"messages":[]}',
    '{"model":"m","\u017ftream":true}'.encode(), b'{"model":"m","stream":true,"Stream":false}',
]  # fmt: skip


@pytest.mark.parametrize("path", JSON_PATHS)
def test_what_cannot_be_read_is_left_to_the_called_engine(path: str) -> None:
    """It has no model, and says why it stays."""
    for bodies, why in ((BROKEN, reading.UNREADABLE), (DOUBLE, reading.AMBIGUOUS)):
        for body in bodies:
            request = read(ID, path, body)
            assert (request.model, request.stays) == ("", why), body[:80]
            assert request.is_streaming is routes.streams_by_default(path)
    for body in (b"{}", b'{"model":null}', b'{"model":""}', b'{"model":" "}'):
        assert (read(ID, path, body).model, read(ID, path, body).stays) == ("", reading.NAMELESS)
    assert read(ID, path, b'{"model":"' + b"m" * 10_000 + b'"}').stays == reading.NAME_TOO_LONG


def test_options_that_cannot_be_read_leave_it_too() -> None:
    """Two windows in one request are no window."""
    assert read(ID, CHAT, b'{"model":"m","options":[1]}').stays == reading.UNREADABLE
    assert read(ID, CHAT, b'{"model":"m","options":{"num_ctx":"many"}}').stays == reading.UNREADABLE
    assert read(ID, CHAT, b'{"model":"m","options":{"num_ctx":1,"num_ctx":2}}').stays == reading.AMBIGUOUS


@pytest.mark.parametrize(
    "more",
    [
        {"max_tokens": 5}, {"tools": [{"type": "mcp"}]}, {"id_slot": 1}, {"reasoning_effort": "low"},
        {"system": "x" * 300}, {"metadata": {"file_id": "f"}},
    ],
)  # fmt: skip
def test_a_chat_of_text_is_read_no_further_than_it_says(more: dict[str, Any]) -> None:
    """One that has more than that is read as any other: what it has tells on the request."""
    settled: dict[str, Any] = {"temperature": 0.5, "stop": ["a"], "stream_options": {"include_usage": True}}
    plain = asked(V1, messages=HELLO, stream=True, **settled)
    assert plain == asked(V1, messages=HELLO, stream=True, mirostat=2, **settled)
    assert plain != asked(V1, messages=HELLO, stream=True, **settled, **more)


def test_a_file_that_one_engine_keeps_ties_the_request_to_it() -> None:
    """Wherever in the body it is named; a text about it is only text."""
    part = {"type": "input_file", "file_id": "file-1"}
    assert (
        asked("/v1/responses", input=[{"content": [part]}]).stays == "it names a file that one engine keeps"
    )
    assert asked("/v1/responses", input=json.dumps(part)).stays is None


def test_an_encoded_body_is_read_from_a_copy() -> None:
    """It says how it is encoded; a coding that is not known stays."""
    plain = json.dumps({"model": "m", "messages": HELLO}).encode()
    packer = zlib.compressobj(wbits=31)
    packed = packer.compress(plain) + packer.flush()
    request = read(ID, V1, packed, coding=" GZIP ")
    assert (request.model, request.coding, request.stays) == ("m:latest", "gzip", None)
    for coding in ("br", "deflate", "gzip, gzip", "rot13", "zstd"):
        assert read(ID, V1, packed, coding=coding).stays == reading.CODING_UNKNOWN


def test_a_form_is_read_for_its_model() -> None:
    """Its sound counts by its length; the other dialects' fields have no place there."""
    form = (
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.mp3"\r\n\r\n' + b"\0" * 320_000
        + b'\r\n--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nWhisper\r\n--b--\r\n'
    )  # fmt: skip
    request = read(ID, "/v1/audio/transcriptions", form, content_type="multipart/form-data; boundary=b")
    assert request.model == "whisper:latest"
    assert request.prompt_tokens == pytest.approx(1000, rel=0.01)
    assert (request.needs, request.is_streaming, request.stays) == (frozenset({"audio"}), False, None)
    assert read(ID, "/v1/audio/transcriptions", form).stays == reading.UNREADABLE
    assert read(ID, "/v1/audio/transcriptions", b'{"model":"m"}').stays == reading.UNREADABLE


@settings(deadline=None)
@given(
    body=st.binary(max_size=200)
    | st.dictionaries(
        st.sampled_from(
            ["model", "messages", "prompt", "options", "stream", "tools", "input", "x", "images"]
        ),
        st.none()
        | st.booleans()
        | st.floats()
        | st.text(max_size=9)
        | st.lists(st.text(max_size=9), max_size=3),
        max_size=4,
    ).map(lambda value: json.dumps(value).encode()),
    path=st.sampled_from(PATHS),
)
def test_no_body_is_too_odd(body: bytes, path: str) -> None:
    """Reading never raises, and what has no model stays."""
    request = read(ID, path, body, content_type="multipart/form-data; boundary=b")
    assert request.model or request.stays
    assert request.prompt_tokens >= 1
    assert request.dialect in Dialect
