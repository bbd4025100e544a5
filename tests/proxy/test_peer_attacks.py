"""What a paired machine that means harm tries at the peer port, beyond the rows of group G."""

import pytest

from pairproxy.proxy.show import ASKED_BYTES
from tests.support.peer_calls import ben_trusting_anna, call, sent
from tests.support.raw_client import request
from tests.support.running import run_async

NAME, ENGINE = "X-Pairproxy-Request: a1", "X-Pairproxy-Engine: engine"


@pytest.mark.parametrize("name", ["X-Pairproxy-Request", "X-Pairproxy-Attempt"])
@pytest.mark.parametrize("digit", ["\u00b2", "\u0663"])
def test_digits_that_are_none_are_no_number_of_an_attempt(name: str, digit: str) -> None:
    """G16: a superscript or an Arabic digit is refused as no node would send it, and is no fault of ours."""

    async def main() -> None:
        async with ben_trusting_anna() as (ben, engine), await call(ben) as anna:
            told = {"X-Pairproxy-Request": "a1", "X-Pairproxy-Attempt": "1"}
            told[name] = digit.encode().decode("latin-1")
            lines = [f"{key}: {value}" for key, value in told.items()]
            reply = await anna.ask(request("POST /api/chat HTTP/1.1", b'{"model":"m:1"}', *lines, host="x"))
            assert (reply.status, reply.header("X-Pairproxy-Refused")) == (400, b"BadRequest")
            assert engine.requests == []

    run_async(main())


def test_g15_a_question_about_a_model_is_as_small_as_one() -> None:
    """413 by its declared length: 32 connections of 256 MiB each would be all of a machine's memory."""

    async def main() -> None:
        async with ben_trusting_anna() as (ben, engine), await call(ben) as anna:
            head = sent({"model": "m:1"}, path="/api/show").partition(b"\r\n\r\n")[0]
            size = b"Content-Length: %d" % (ASKED_BYTES + 1)
            lines = [size if one.startswith(b"Content-Length") else one for one in head.split(b"\r\n")]
            await anna.send(b"\r\n".join(lines) + b"\r\n\r\n")
            reply = await anna.head()
            assert (reply.status, reply.header("X-Pairproxy-Refused")) == (413, b"BodyTooLarge")
            assert engine.requests == []

    run_async(main())
