"""Who takes a reply: what is asked of a sink, and in which order."""

import pytest

from pairproxy.upstreams import FunctionSink, Sink
from tests.support import engine_scripts as scripts
from tests.support.relaying import GET, serving
from tests.support.running import run_async


def test_bytes_are_passed_on_before_anybody_looks_at_them() -> None:
    """Raw bytes are written, then their decoded part is shown, read for read."""
    calls: list[tuple[str, bytes]] = []

    async def drained() -> None:
        raise AssertionError("nothing waits")

    async def talk() -> None:
        sink = FunctionSink(
            lambda data: calls.append(("write", data)), lambda part: calls.append(("see", part)), drained, int
        )
        async with serving(scripts.in_chunks([b"one", b"two"], gap_s=0.05, content_type="x")) as (
            _,
            upstream,
        ):
            await (await upstream.send(GET)).relay(sink, lambda: calls.append(("begun", b"")))

    run_async(talk())
    assert [name for name, _ in calls[:3]] == ["write", "begun", "see"]
    assert b"".join(data for name, data in calls if name == "see") == b"onetwo"
    seen = [i for i, (name, _) in enumerate(calls) if name == "see"]
    assert all(calls[i - 1][0] in ("write", "begun") for i in seen)


def test_a_sink_that_only_passes_on_need_not_look() -> None:
    """Looking is for who wants to; writing is what a sink is for."""
    sink = Sink()
    sink.see(b"anything")
    with pytest.raises(NotImplementedError):
        sink.write(b"anything")
    with pytest.raises(NotImplementedError):
        sink.buffered()
    with pytest.raises(NotImplementedError):
        run_async(sink.drain())
