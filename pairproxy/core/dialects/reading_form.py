"""The model's name out of a multipart form, without taking the form apart: it may hold 25 MB of sound."""

import re
from dataclasses import dataclass
from typing import Final

PARTS_LIMIT: Final = 64  # fields; the transcription route knows about ten
HEADER_BYTES: Final = 1024  # of one part
VALUE_BYTES: Final = 512  # of the fields that are read

_BOUNDARY: Final = re.compile(r';\s*boundary=(?:"([^"\\]{1,70})"|([^\s;"]{1,70}))', re.IGNORECASE)
_NAME: Final = re.compile(
    rb'content-disposition:\s*form-data\s*;[^\r\n]*?\bname="(model|stream)"', re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Form:
    """``model`` is None if there is none."""

    model: str | None
    is_streaming: bool


def read_form(body: bytes, content_type: str) -> Form | None:
    """Read a form; None if it is none, or names something twice. Raises UnicodeDecodeError."""
    boundary = _BOUNDARY.search(content_type)
    if boundary is None or not content_type.lower().lstrip().startswith("multipart/form-data"):
        return None
    mark = b"--" + (boundary[1] or boundary[2]).encode()
    if not body.startswith(mark):
        return None
    fields: dict[bytes, str] = {}
    end = b"\r\n" + mark
    at = len(mark)
    for _ in range(PARTS_LIMIT):
        following = body.find(end, at)
        if following < 0:
            break
        name, value = _part(body, at, following)
        if name is not None:
            if name in fields or value is None:
                return None
            fields[name] = value
        at = following + len(end)
    if body[at : at + 2] != b"--":
        return None
    return Form(fields.get(b"model"), fields.get(b"stream", "").lower() in ("true", "1"))


def _part(body: bytes, start: int, end: int) -> tuple[bytes | None, str | None]:
    """The name and value of a part that is read here; (None, None) for any other."""
    head_end = body.find(b"\r\n\r\n", start, min(start + HEADER_BYTES, end))
    found = _NAME.search(body, start, head_end) if head_end >= 0 else None
    if found is None:
        return None, None
    value = body[head_end + 4 : end]
    return found[1].lower(), value.decode() if len(value) <= VALUE_BYTES else None
