import sys
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pairproxy.core.dialects.coding import DECODED_BYTES, decoded

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

BODY = b'{"model":"m"}'


def gzip(body: bytes) -> bytes:
    """One gzip member."""
    packer = zlib.compressobj(wbits=31)
    return packer.compress(body) + packer.flush()


PACK: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip, "x-gzip": gzip, "zstd": zstd.compress}


@pytest.mark.parametrize("coding", PACK)
def test_a_known_coding_is_undone(coding: str) -> None:
    """One whole piece of it, up to a size that is bounded."""
    packed = PACK[coding](BODY)
    assert decoded(coding, packed) == BODY
    assert decoded(coding, packed[:-1]) is None
    assert decoded(coding, packed + packed) is None
    assert decoded(coding, BODY) is None
    assert decoded(coding, b"") is None
    assert decoded(coding, PACK[coding](bytes(DECODED_BYTES - 1))) == bytes(DECODED_BYTES - 1)
    assert decoded(coding, PACK[coding](bytes(DECODED_BYTES + 1))) is None


@pytest.mark.parametrize("coding", ["br", "deflate", "gzip, gzip", "gzip,zstd", "rot13", "compress"])
def test_any_other_is_not(coding: str) -> None:
    """Nor are two of them."""
    assert decoded(coding, gzip(gzip(BODY))) is None


@pytest.mark.parametrize("coding", ["", "identity"])
def test_no_coding_is_the_body_itself(coding: str) -> None:
    """Not a copy of it."""
    assert decoded(coding, BODY) is BODY


@settings(deadline=None)
@given(body=st.binary(max_size=200), coding=st.sampled_from(sorted(PACK)))
def test_nothing_broken_raises(body: bytes, coding: str) -> None:
    """It is None."""
    assert decoded(coding, body) is None or body
