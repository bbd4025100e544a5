"""A bounded copy of an encoded body, made only to see where the request may run."""

import sys
import zlib
from typing import Final

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

DECODED_BYTES: Final = 20 * 2**20  # Ollama's own limit for encoded bodies
_GZIP_WINDOW: Final = 31  # zlib's number for a gzip header and the largest window


def decoded(coding: str, body: bytes) -> bytes | None:
    """The body without its coding; None if it is not known, too large, broken, or more than one piece."""
    if coding in ("", "identity"):
        return body
    if coding in ("gzip", "x-gzip"):
        return _gunzip(body)
    return _unzstd(body) if coding == "zstd" else None


def _gunzip(body: bytes) -> bytes | None:
    decoder = zlib.decompressobj(wbits=_GZIP_WINDOW)
    try:
        plain = decoder.decompress(body, DECODED_BYTES)
    except zlib.error:
        return None
    return plain if decoder.eof and not decoder.unused_data else None


def _unzstd(body: bytes) -> bytes | None:
    decoder = zstd.ZstdDecompressor()
    try:
        plain = decoder.decompress(body, DECODED_BYTES)
    except zstd.ZstdError:
        return None
    return plain if decoder.eof and not decoder.unused_data else None
