"""What is written together leaves together, in order, and never waits longer than a turn of the loop."""

import asyncio
import gc
import weakref

from hypothesis import given
from hypothesis import strategies as st

from pairproxy.config import Limits
from pairproxy.proxy.flow import Flow
from pairproxy.upstreams.connection import JOINED_BYTES, Connection
from pairproxy.upstreams.incoming import Incoming
from pairproxy.upstreams.outbox import MOST, WAITING_BYTES, Outbox, outbox_of
from tests.support.running import run_async


class Wire(asyncio.Transport):
    """Keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.is_closed = False
        self.error: Exception | None = None

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Keep it, or raise the error."""
        if self.error is not None:
            raise self.error
        self.writes.append(bytes(data))

    def is_closing(self) -> bool:
        """Whether nobody can read any more."""
        return self.is_closed

    def abort(self) -> None:
        """Be closed."""
        self.is_closed = True

    def get_write_buffer_size(self) -> int:
        """All is the system's."""
        return 0


class Writer:
    """A connection as far as it writes."""

    def __init__(self) -> None:
        self._flow = Flow(asyncio.get_running_loop())
        self.wire = Wire()
        self._flow.connection_made(self.wire)
        self.send, self.flush = self._flow.send, self._flow.flush
        self.unsent_bytes = self._flow.unsent_bytes

    def lose(self) -> None:
        """Nobody reads it any more."""
        self._flow.connection_lost(None)


def expecting(count: int, writers: int) -> tuple[Outbox, list[Writer]]:
    """The outbox in a turn in which so many tasks were woken."""
    outbox = outbox_of(asyncio.get_running_loop())
    for _ in range(count):
        outbox.expect()
    return outbox, [Writer() for _ in range(writers)]


def test_whoever_is_alone_writes_at_once() -> None:
    """Expected or not."""

    async def main() -> None:
        for count in (0, 1):
            _, [one] = expecting(count, 1)
            one.send(b"a")
            assert one.wire.writes == [b"a"]

    run_async(main())


def test_after_a_large_request_of_its_own_nobody_is_waited_for() -> None:
    """Whoever was expected to write it wrote it, though no part of it could wait."""

    async def main() -> None:
        outbox, [client] = expecting(1, 1)
        engine, wire = Connection(("127.0.0.1", 1), lambda _, __: None, lambda _: None), Wire()
        engine.connection_made(wire)
        engine.begin(Incoming(engine, "POST", Limits(), "engine"), b"head ", b"b" * (JOINED_BYTES + 1))
        assert wire.writes == [b"head " + b"b" * (JOINED_BYTES + 1)]
        outbox.expect()  # the reply begins
        client.send(b"a")
        assert client.wire.writes == [b"a"]

    run_async(main())


def test_what_several_write_leaves_at_the_end_of_the_turn() -> None:
    """The last who was expected waits with them, and each connection is written to once."""

    async def main() -> None:
        _, writers = expecting(3, 3)
        for one in writers:
            one.send(b"head ")
            one.send(b"body")
        assert [one.wire.writes for one in writers] == [[], [], []]
        assert [one.unsent_bytes() for one in writers] == [9, 9, 9]
        await asyncio.sleep(0)
        assert [one.wire.writes for one in writers] == [[b"head body"]] * 3
        assert [one.unsent_bytes() for one in writers] == [0, 0, 0]

    run_async(main())


def test_what_arrives_before_the_turn_ends_is_expected_in_the_next() -> None:
    """The loop hears of it first, and writes then."""

    async def main() -> None:
        outbox, writers = expecting(2, 4)
        for one in writers[:2]:
            one.send(b"a")
        outbox.expect()
        outbox.expect()
        await asyncio.sleep(0)
        for one in writers[2:]:
            one.send(b"b")
        assert [len(one.wire.writes) for one in writers] == [1, 1, 0, 0]
        await asyncio.sleep(0)
        assert [len(one.wire.writes) for one in writers] == [1, 1, 1, 1]

    run_async(main())


def test_no_more_wait_than_may() -> None:
    """The first go when there are enough of them."""

    async def main() -> None:
        _, writers = expecting(2 * MOST, MOST + 1)
        for one in writers:
            one.send(b"a")
        assert [len(one.wire.writes) for one in writers] == [1] * MOST + [0]
        await asyncio.sleep(0)
        assert [len(one.wire.writes) for one in writers] == [1] * (MOST + 1)

    run_async(main())


def test_who_was_expected_and_does_not_write_holds_up_nobody_for_long() -> None:
    """One turn; then it is forgotten."""

    async def main() -> None:
        _, [one] = expecting(250, 1)
        one.send(b"a")
        assert one.wire.writes == []
        await asyncio.sleep(0)
        one.send(b"b")
        assert one.wire.writes == [b"a", b"b"]

    run_async(main())


def test_what_is_large_waits_for_nobody_and_overtakes_nothing() -> None:
    """Neither in one piece nor as the sum of many."""

    async def main() -> None:
        _, [one, other] = expecting(9, 2)
        one.send(b"a")
        one.send(b"b" * WAITING_BYTES)
        assert one.wire.writes == [b"a", b"b" * WAITING_BYTES]
        other.send(b"c" * (WAITING_BYTES + 1))
        assert len(other.wire.writes) == 1

    run_async(main())


def test_to_who_is_gone_nothing_is_written() -> None:
    """Whether it goes before or after it was written to."""

    async def main() -> None:
        _, [closing, lost, gone] = expecting(9, 3)
        closing.send(b"a")
        lost.send(b"a")
        closing.wire.is_closed = True
        lost.lose()
        gone.lose()
        gone.send(b"a")
        await asyncio.sleep(0)
        assert [one.wire.writes for one in (closing, lost, gone)] == [[], [], []]
        assert (lost.unsent_bytes(), gone.unsent_bytes()) == (0, 0)

    run_async(main())


def test_one_that_cannot_be_written_to_holds_up_no_other() -> None:
    """It ends, for bytes are missing there, and the log is told; all others have left."""
    told: list[object] = []

    async def main() -> None:
        _, writers = expecting(9, 3)
        loop, fault = asyncio.get_running_loop(), RuntimeError("no loop does that")
        loop.set_exception_handler(lambda _, context: told.append(context["exception"]))
        writers[1].wire.error = fault
        for one in writers:
            one.send(b"a")
        await asyncio.sleep(0)
        assert [one.wire.writes for one in writers] == [[b"a"], [], [b"a"]]
        assert [one.wire.is_closed for one in writers] == [False, True, False]
        assert told == [fault]

    run_async(main())


def test_a_loop_that_ended_is_not_kept() -> None:
    """Each would hold its buffers as long as the process lives."""

    async def mine() -> weakref.ref[asyncio.AbstractEventLoop]:
        outbox_of(asyncio.get_running_loop())
        return weakref.ref(asyncio.get_running_loop())

    ended = run_async(mine())
    gc.collect()
    assert ended() is None


def test_a_loop_has_one() -> None:
    """And another loop another."""

    async def mine() -> Outbox:
        assert outbox_of(asyncio.get_running_loop()) is outbox_of(asyncio.get_running_loop())
        return outbox_of(asyncio.get_running_loop())

    assert run_async(mine()) is not run_async(mine())


STEPS = st.one_of(
    st.just("expect"),
    st.just("turn"),
    st.tuples(st.just("flush"), st.integers(0, 3)),
    st.tuples(
        st.integers(0, 3), st.sampled_from([0, 1, 7, WAITING_BYTES - 3, WAITING_BYTES, WAITING_BYTES + 1])
    ),
)


@given(st.lists(STEPS, max_size=40))
def test_each_connection_gets_all_bytes_in_order(steps: list[str | tuple[str | int, int]]) -> None:
    """Whatever is expected and whoever writes; after a turn nothing waits."""

    async def main() -> None:
        outbox, writers = expecting(0, 4)
        given_bytes = [bytearray() for _ in writers]
        for number, step in enumerate(steps):
            match step:
                case "expect":
                    outbox.expect()
                case "turn":
                    await asyncio.sleep(0)
                    assert not any(one.unsent_bytes() for one in writers)
                case ("flush", int(index)):
                    writers[index].flush()
                case (int(index), size):
                    data = bytes([number]) * size
                    given_bytes[index] += data
                    writers[index].send(data)
        await asyncio.sleep(0)
        assert [b"".join(one.wire.writes) for one in writers] == given_bytes

    run_async(main())
