from typing import Any

import pytest

from pairproxy.core.errors import BrokenReply, Unreachable, UpstreamError
from pairproxy.engines import ask as asking
from pairproxy.engines.ask import ask
from tests.support.running import run_async
from tests.support.scripted_engine import ScriptedEngine, serving


async def ask_for(reply: object, **more: Any) -> object:
    """Ask an engine that answers with ``reply``."""
    async with serving(ScriptedEngine({"/it": reply}, **more)) as engine:
        return await ask("127.0.0.1", engine.port, "/it")


def test_a_good_answer_is_parsed() -> None:
    """JSON comes back as Python's values."""
    assert run_async(ask_for({"a": [1, None]})) == {"a": [1, None]}


@pytest.mark.parametrize(
    "reply", [b"", b"<html>", b"\xff\xfe", b"[" * 100_000, b'{"a":"' + b"x" * asking.REPLY_BYTES + b'"}']
)
def test_a_bad_answer_is_an_error_of_ours(reply: bytes) -> None:
    """No JSON, nesting without end, or too much of it: always an UpstreamError, never a foreign one."""
    with pytest.raises(UpstreamError) as caught:
        run_async(ask_for(reply))
    assert len(caught.value.sentence) < 200


def test_another_status_is_an_error() -> None:
    """Only 200 counts as an answer."""

    async def scene() -> None:
        async with serving(ScriptedEngine({})) as engine:
            with pytest.raises(BrokenReply, match="404"):
                await ask("127.0.0.1", engine.port, "/it")

    run_async(scene())


def test_a_slow_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that does not answer in time counts as not answering."""
    monkeypatch.setattr(asking, "TIMEOUT_S", 0.2)
    with pytest.raises(BrokenReply):
        run_async(ask_for({}, delay_s=30))


def test_nobody_there() -> None:
    """A port where nothing listens is Unreachable, which may be retried elsewhere."""

    async def scene() -> None:
        engine = ScriptedEngine({})
        async with serving(engine):
            pass
        with pytest.raises(Unreachable):
            await ask("127.0.0.1", engine.port, "/it")

    run_async(scene())
