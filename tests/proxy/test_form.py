"""The form of a request, asked through a port that answers everything that has one."""

import pytest

from pairproxy.config import Limits
from pairproxy.core.errors import PairproxyError
from pairproxy.proxy.form import METHODS, check_form
from pairproxy.proxy.listening import bind, port_of
from pairproxy.proxy.request import HttpRequest
from pairproxy.proxy.server import PagePort
from pairproxy.responses import Response, StreamResponse
from tests.support.raw_client import RawClient, request
from tests.support.running import run_async


async def answer(incoming: HttpRequest) -> StreamResponse:
    """204, or the status of what is wrong."""
    try:
        check_form(incoming)
    except PairproxyError as error:
        return Response(status=error.status)
    return Response(status=204)


def status_of(sent: bytes) -> int:
    """What the port answers to these bytes."""

    async def main() -> int:
        (sock,) = bind("127.0.0.1", 0, "")
        port = PagePort(answer, Limits())
        await port.start(sock)
        async with await RawClient.open(port_of(sock)) as client:
            reply = await client.ask(sent, is_head=True)
        await port.stop()
        return reply.status

    return run_async(main())


@pytest.mark.parametrize("method", sorted(METHODS))
@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_what_engines_know_is_let_through(method: str, version: str) -> None:
    """The methods of the engines, in both versions."""
    assert status_of(request(f"{method} /a HTTP/{version}", None)) == 204


WRONG = {
    "a method that shows the request": ("TRACE / HTTP/1.1", 405),
    "a tunnel": ("CONNECT evil.example:443 HTTP/1.1", 405),
    "a method of WebDAV": ("PROPFIND / HTTP/1.1", 405),
    "another version": ("GET / HTTP/2.0", 505),
    "another machine": ("GET http://169.254.169.254/ HTTP/1.1", 400),
    "no path": ("OPTIONS * HTTP/1.1", 400),
}


@pytest.mark.parametrize(("line", "expected"), WRONG.values(), ids=WRONG.keys())
def test_what_is_no_request_for_an_engine_is_refused(line: str, expected: int) -> None:
    """Each with the status that HTTP has for it."""
    assert status_of(request(line, None)) == expected


CODINGS = {"chunked": 204, "Chunked": 204, "gzip, chunked": 501, "chunked, chunked": 400, ", chunked": 501}


@pytest.mark.parametrize(("coding", "expected"), CODINGS.items())
def test_a_body_is_chunked_or_counted(coding: str, expected: int) -> None:
    """Another coding would reach the engine under a wrong name."""
    sent = request("POST / HTTP/1.1", b"0\r\n\r\n", f"Transfer-Encoding: {coding}")
    assert status_of(sent) == expected


def test_http_1_0_has_no_chunks() -> None:
    """A body of HTTP/1.0 that says so may be read in two ways."""
    assert status_of(request("POST / HTTP/1.0", b"0\r\n\r\n", "Transfer-Encoding: chunked")) == 400
