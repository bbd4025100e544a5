"""What is no HTTP at all, at a port of ours."""

import json

import pytest

from tests.support.open_ports import hello, open_port
from tests.support.raw_client import RawClient
from tests.support.running import run_async


@pytest.mark.parametrize(
    "sent", [b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\n: x\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"]
)
def test_what_is_no_http_is_answered_as_everything_else(sent: bytes) -> None:
    """HTTP/1.1, JSON, the end of the connection, and no word about what we are made of."""

    async def main() -> bytes:
        port, number = await open_port(hello)
        async with await RawClient.open(number) as client:
            client.writer.write(sent)
            said = await client.end()
        await port.stop()
        return said

    head, _, body = run_async(main()).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"Connection: close" in head
    assert b"server" not in head.lower()
    assert set(json.loads(body)) == {"error"}
